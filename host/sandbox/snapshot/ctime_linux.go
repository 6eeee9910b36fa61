package snapshot

import "syscall"

// changed returns the time of the last change of an entry, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
