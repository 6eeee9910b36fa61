package postgrestest

import "syscall"

// endWithParent ends a process with the test process.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
