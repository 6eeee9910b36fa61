//go:build embedtz

package main

import _ "time/tzdata" // for a release
