package fsm

// NamespaceStats counts the records of a namespace by view status.
type NamespaceStats struct {
	Records   int64 // all of them, tombstones included
	Bytes     int64 // as maxBytes counts them
	Pending   int64 // lease live
	Uncertain int64 // pending, lease over
	Committed int64 // ttl live
	Failed    int64 // ttl live
	Released  int64
	Cancelled int64
	Expired   int64 // committed or failed, ttl over

	// OldestUncertain is when the lease ended that has been over for longest;
	// 0 when nothing is uncertain.
	OldestUncertain Time
}

// Stats counts the records of every live namespace as seen at now.
func (m *Machine) Stats(now Time) map[string]NamespaceStats { return nil }
