package need

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a free loopback address that stays free until it is used: its port is below the range that systems assign to outgoing
// connections and to listeners that request any port.
func FreeAddress() (string, error) {
	const first, last = 10_000, 32_000
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		lis, err := net.Listen("tcp", address)
		if err == nil {
			return address, lis.Close()
		}
	}
	return "", errors.New("find a free port: none of 100 is free")
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
