// Package chaos is the proof: it runs real onced processes under a workload
// and faults, writes down every call, and holds what was answered against a
// model of the contract, a ledger of effects and a replay of every
// acknowledged outcome.
//
// The parts, in the order of a run: Nodes are the processes, behind a Fabric
// that can cut them from each other and on Disks that can fail; a workload
// makes calls through a Caller, which writes a History; a Nemesis injects
// Faults, each of which must show its effect; a Ledger, a process of its own,
// is the exchange that fills orders; Check gives the Verdict.
//
// A seed drives workload and faults. Two runs of one seed ask for the same
// things in the same order per client; what the cluster answers, and when, is
// the machine's.
package chaos
