//go:build !linux && !darwin

package peercred

func peerUID(int) (uint32, error) { return 0, ErrUnsupported }

func peerPID(int) (int, error) { return 0, ErrUnsupported }
