// Package bench is a load generator: it calls an operation from many clients,
// in an open loop at a rate or in a closed loop, and tells how long the calls
// took, how many were done, and what processor time each cost.
//
// [Load] drives any [Op], so that another system can be measured by the same
// clock. [Onced] gives the operations of onced over its HTTP API.
//
// It shares the machine with what it measures, so it must cost little. That is
// why it does not use package client, which is what users link: each client here
// has one connection, writes a request that was made beforehand, and reads of
// the answer only what it needs. What package client costs is another
// measurement, that of scripts/bench.sh gateway.
package bench
