package chaos

var networkFaults, limitFaults, clockFaults []*Fault
