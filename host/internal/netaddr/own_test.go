package netaddr

import (
	"errors"
	"net/netip"
	"testing"
)

// TestOwnAddressesAreRefused: also public ones, in both forms, and all where the machine cannot tell.
func TestOwnAddressesAreRefused(t *testing.T) {
	own := func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("2606:4700::7")}, nil
	}
	for addr, refused := range map[string]bool{
		"8.8.4.4": true, "::ffff:8.8.4.4": true, "2606:4700::7": true, "8.8.8.8": false, "2606:4700::8": false, "127.0.0.1": true, "10.0.0.1": true,
	} {
		if err := PublicAndNotOf(own, netip.MustParseAddr(addr)); (err != nil) != refused {
			t.Errorf("%s: %v", addr, err)
		}
	}
	unknown := func() ([]netip.Addr, error) { return nil, errors.New("no interfaces") }
	if PublicAndNotOf(unknown, netip.MustParseAddr("8.8.8.8")) == nil {
		t.Error("an address is taken although the machine cannot tell its own")
	}
}

func TestOwn(t *testing.T) {
	own, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if NotOf(own, a) == nil {
			t.Errorf("%s is taken", a)
		}
	}
}
