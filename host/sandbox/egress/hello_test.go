package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

// greeting is what the standard library sends for a name.
func greeting(t testing.TB, name string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(theirs, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() // fails for want of an answer
	}()
	raw, _, err := readHello(bufio.NewReader(ours))
	ours.Close()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// records puts a handshake message into records of at most size bytes.
func records(message []byte, size int) []byte {
	var out []byte
	for part := range slices.Chunk(message, size) {
		out = append(out, recordHandshake, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	return out
}

// message is a ClientHello with the extensions given.
func clientHello(extensions ...[]byte) []byte {
	body := slices.Concat(make([]byte, helloRandom), []byte{0, 0, 2, 0x13, 1, 1, 0})
	all := slices.Concat(extensions...)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(all))), all...)
	return append([]byte{handshakeHello, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

func extension(kind uint16, data []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, kind)
	return append(binary.BigEndian.AppendUint16(out, uint16(len(data))), data...)
}

// serverName is the extension with a list of names.
func serverName(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, nameTypeHost)
		list = append(binary.BigEndian.AppendUint16(list, uint16(len(n))), n...)
	}
	return extension(extensionName, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

func TestReadHello(t *testing.T) {
	for _, c := range []struct {
		name   string
		raw    []byte
		want   string
		hidden bool
		bad    bool
	}{
		{"of the library", greeting(t, "example.com"), "example.com", false, false},
		{"of the library without a name", greeting(t, ""), "", false, false},
		{"small", records(clientHello(serverName("example.com")), 1<<14), "example.com", false, false},
		{"in many records", records(clientHello(serverName("example.com")), 3), "example.com", false, false},
		{"of two bytes", records(clientHello(serverName("example.com")), 1), "", false, true}, // more records than anybody needs
		{"no name", records(clientHello(extension(10, nil)), 1<<14), "", false, false},
		{"encrypted", records(clientHello(serverName("example.com"), extension(extensionECH, []byte{0})), 1<<14), "example.com", true, false},
		{"encrypted, draft", records(clientHello(extension(extensionESNI, nil)), 1<<14), "", true, false},
		{"two names", records(clientHello(serverName("example.com", "evil.org")), 1<<14), "", false, true},
		{"two lists", records(clientHello(serverName("example.com"), serverName("evil.org")), 1<<14), "", false, true},
		{"empty name", records(clientHello(serverName("")), 1<<14), "", false, true},
		{"empty list", records(clientHello(serverName()), 1<<14), "", false, true},
		{"long name", records(clientHello(serverName(strings.Repeat("a", 256))), 1<<14), "", false, true},
		{"bytes after the message", records(append(clientHello(serverName("example.com")), 0), 1<<14), "", false, true},
		{"length too long", records(append(clientHello()[:2], 0xff, 0xff), 1<<14), "", false, true},
		{"another message", records([]byte{2, 0, 0, 1, 0}, 1<<14), "", false, true},
		{"empty record", []byte{recordHandshake, 3, 1, 0, 0}, "", false, true},
		{"alert", []byte{21, 3, 1, 0, 2, 1, 0}, "", false, true},
		{"SSL 2", []byte{0x80, 0x2e, 1, 3, 1}, "", false, true},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), "", false, true},
		{"HTTP/2 with prior knowledge", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "", false, true},
		{"SSH", []byte("SSH-2.0-x\r\n"), "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, h, err := readHello(bufio.NewReader(bytes.NewReader(append(slices.Clone(c.raw), "rest"...))))
			if errors.Is(err, errHello) != c.bad || err != nil && !c.bad {
				t.Fatalf("got %+v (%v)", h, err)
			}
			if err == nil && (h.name != c.want || h.hidden != c.hidden || !bytes.Equal(raw, c.raw)) {
				t.Errorf("got %+v", h)
			}
		})
	}
}

// FuzzHello checks that what is accepted was not changed, and names no more than one host.
func FuzzHello(f *testing.F) {
	f.Add(greeting(f, "example.com"))
	f.Add(records(clientHello(serverName("example.com"), extension(extensionECH, nil)), 7))
	f.Add(records(clientHello(), 1<<14))
	f.Add([]byte{recordHandshake, 3, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, wire []byte) {
		raw, h, err := readHello(bufio.NewReader(bytes.NewReader(wire)))
		if err != nil {
			return
		}
		if !bytes.HasPrefix(wire, raw) || len(h.name) > maxServerNameBytes {
			t.Fatalf("read %x as %+v", wire, h)
		}
		if h.name != "" && !bytes.Contains(unframed(raw), []byte(h.name)) {
			t.Errorf("made up %q", h.name)
		}
	})
}

// unframed joins the contents of records.
func unframed(raw []byte) []byte {
	var out []byte
	for len(raw) > 0 {
		n := int(binary.BigEndian.Uint16(raw[3:]))
		out = append(out, raw[recordHeader:recordHeader+n]...)
		raw = raw[recordHeader+n:]
	}
	return out
}
