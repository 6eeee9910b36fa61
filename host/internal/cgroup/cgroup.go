// Package cgroup finds the control groups of this process and prepares them for children, in both versions of the kernel's interface. Start
// with Own.
package cgroup
