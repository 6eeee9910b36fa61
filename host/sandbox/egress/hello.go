package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// Numbers of TLS (RFC 8446, 4 and 5.1; the IANA registries).
const (
	recordHandshake    = 22
	handshakeHello     = 1
	extensionName      = 0
	extensionECH       = 0xfe0d // encrypted_client_hello
	extensionESNI      = 0xffce // its draft
	recordHeader       = 5
	handshakeHeader    = 4
	maxRecord          = 16 << 10
	maxHello           = 16 << 10
	maxHelloRecords    = 64
	unrecognizedName   = "\x15\x03\x03\x00\x02\x02\x70" // the alert unrecognized_name, as a record
	helloRandom        = 34                             // version and random
	nameTypeHost       = 0
	maxServerNameBytes = 255
)

// hello is what a ClientHello says about its destination.
type hello struct {
	name string // "" if there is none
	// hidden is set if it may carry another name, encrypted.
	hidden bool
}

var errHello = errors.New("a tunnel carries TLS only, and what came is not a TLS greeting")

// readHello reads the records of the first handshake message and returns them unchanged.
func readHello(r *bufio.Reader) (raw []byte, h hello, err error) {
	var message []byte
	for range maxHelloRecords {
		record, err := readRecord(r)
		if err != nil {
			return nil, hello{}, err
		}
		raw, message = append(raw, record...), append(message, record[recordHeader:]...)
		if len(message) < handshakeHeader {
			continue
		}
		size := handshakeHeader + int(binary.BigEndian.Uint32(message)&0xffffff)
		if message[0] != handshakeHello || size > maxHello || len(message) > size {
			return nil, hello{}, errHello
		}
		if len(message) == size {
			h, err = parseHello(message[handshakeHeader:])
			return raw, h, err
		}
	}
	return nil, hello{}, errHello
}

func readRecord(r *bufio.Reader) ([]byte, error) {
	var header [recordHeader]byte
	for i := range header { // byte by byte: another protocol may end, or wait, before five bytes
		c, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		header[i] = c
		if i == 0 && c != recordHandshake || i == 1 && c != 3 {
			return nil, errHello
		}
	}
	size := int(binary.BigEndian.Uint16(header[3:]))
	if size == 0 || size > maxRecord {
		return nil, errHello
	}
	record := make([]byte, recordHeader+size)
	copy(record, header[:])
	_, err := io.ReadFull(r, record[recordHeader:])
	return record, err
}

// parseHello parses the body of a ClientHello (RFC 8446, 4.1.2). Lengths must match exactly.
func parseHello(body []byte) (hello, error) {
	p := parser{rest: body}
	p.take(helloRandom)
	p.vector(1) // session
	p.vector(2) // cipher suites
	p.vector(1) // compression
	if p.failed {
		return hello{}, errHello
	}
	var h hello
	if len(p.rest) == 0 {
		return h, nil // very old clients send no extensions
	}
	extensions := parser{rest: p.vector(2)}
	if p.failed || len(p.rest) != 0 {
		return hello{}, errHello
	}
	seen := make(map[uint16]bool)
	for len(extensions.rest) > 0 {
		kind, data := extensions.number(), extensions.vector(2)
		if extensions.failed || seen[kind] {
			return hello{}, errHello
		}
		seen[kind] = true
		switch kind {
		case extensionECH, extensionESNI:
			h.hidden = true
		case extensionName:
			var err error
			if h.name, err = parseServerName(data); err != nil {
				return hello{}, err
			}
		}
	}
	return h, nil
}

// parseServerName parses the list of the extension, which in practice has one host name (RFC 6066, 3).
func parseServerName(data []byte) (string, error) {
	p := parser{rest: data}
	list := parser{rest: p.vector(2)}
	kind := list.take(1)
	name := list.vector(2)
	if p.failed || list.failed || len(p.rest)+len(list.rest) > 0 || kind[0] != nameTypeHost || len(name) == 0 || len(name) > maxServerNameBytes {
		return "", errHello
	}
	return string(name), nil
}

// parser consumes a message. After a failure it returns nothing.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) take(n int) []byte {
	if p.failed || n > len(p.rest) {
		p.failed, p.rest = true, nil
		return nil
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

func (p *parser) number() uint16 {
	if b := p.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// vector consumes bytes preceded by their count, which is one or two bytes wide.
func (p *parser) vector(width int) []byte {
	if width == 2 {
		n := int(p.number())
		return p.take(n)
	}
	if b := p.take(1); b != nil {
		return p.take(int(b[0]))
	}
	return nil
}
