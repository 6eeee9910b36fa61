package pool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Memory is the state of the machine's memory.
type Memory struct {
	// Stalled is the percentage of the last ten seconds in which some process waited for memory; 0 if the kernel does not report it
	// (Documentation/accounting/psi.rst).
	Stalled float64
	// Available is the share of the memory that can be allocated without swapping, from 0 to 1.
	Available float64
}

// pressure decides when memory is short. Its thresholds have a gap, so that the pools do not fill and drain in turns.
type pressure struct{ on bool }

const (
	stalledShort, stalledEnough     = 10.0, 5.0
	availableShort, availableEnough = 0.10, 0.15
)

// update reports whether the state has changed.
func (p *pressure) update(s Memory) (changed bool) {
	was := p.on
	if p.on {
		p.on = s.Stalled > stalledEnough || s.Available < availableEnough
	} else {
		p.on = s.Stalled > stalledShort || s.Available < availableShort
	}
	return p.on != was
}

// readMemory reads the state from the kernel.
func readMemory() (Memory, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	var s Memory
	if s.Available, err = parseMemInfo(info); err != nil {
		return Memory{}, err
	}
	if stalls, err := os.ReadFile("/proc/pressure/memory"); err == nil { // disabled in some kernels
		s.Stalled, err = parseStalls(stalls)
		return s, err
	}
	return s, nil
}

// parseMemInfo returns the ratio of MemAvailable to MemTotal; see proc_meminfo(5).
func parseMemInfo(info []byte) (float64, error) {
	total, err1 := memInfoField(info, "MemTotal:")
	available, err2 := memInfoField(info, "MemAvailable:")
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	if total <= 0 || available < 0 || available > total {
		return 0, fmt.Errorf("/proc/meminfo says that %v of %v kB are available", available, total)
	}
	return available / total, nil
}

func memInfoField(info []byte, name string) (float64, error) {
	for line := range bytes.Lines(info) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if words := bytes.Fields(rest); len(words) > 0 {
				return strconv.ParseFloat(string(words[0]), 64)
			}
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no %s", name)
}

// parseStalls returns avg10 of the line "some".
func parseStalls(text []byte) (float64, error) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) < 2 || string(words[0]) != "some" {
			continue
		}
		if value, ok := bytes.CutPrefix(words[1], []byte("avg10=")); ok {
			return strconv.ParseFloat(string(value), 64)
		}
	}
	return 0, errors.New("/proc/pressure/memory has no average of ten seconds")
}
