//go:build !race

package linkedtest

const raced = false
