package need

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a loopback address at which nobody listens and that stays free until somebody does: its port is below those that systems
// give to outgoing connections, and to listeners that ask for any.
func FreeAddress() (string, error) {
	const first, last = 10_000, 32_000
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		lis, err := net.Listen("tcp", address)
		if err == nil {
			return address, lis.Close()
		}
	}
	return "", errors.New("find a free port: none of 100")
}

// Address is FreeAddress for a test.
func Address(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
