// Package fsmpb holds the generated protobuf types of log entries, snapshots
// and results. fsm.proto beside this file is their source; `make generate`
// writes fsm.pb.go anew.
package fsmpb
