// Package uptime reads the clock for leases: nobody can set it, and it goes on while the machine is suspended.
package uptime
