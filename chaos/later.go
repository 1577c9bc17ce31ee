package chaos

var networkFaults, diskFaults, damageFaults, limitFaults, clockFaults []*Fault
