package linkedtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mau.fi/libsignal/ecc"
	"go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waAdv"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/util/keys"
	"google.golang.org/protobuf/proto"
)

const codes = 6 // that a device shows, one after another

// The prefixes of signed messages.
var (
	accountSigned = []byte{6, 0}
	deviceSigned  = []byte{6, 1}
)

// offer gives a device without an account the data for its codes.
func (s *Server) offer(c *conn) {
	refs := make([]binary.Node, codes)
	for i := range refs {
		ref := s.nextID()
		c.refs = append(c.refs, ref)
		refs[i] = binary.Node{Tag: "ref", Content: []byte(ref)}
	}
	c.send(binary.Node{Tag: "iq", Attrs: binary.Attrs{"from": types.ServerJID, "type": "set", "id": s.nextID(), "xmlns": "md"}, Content: []binary.Node{
		{Tag: "pair-device", Content: refs},
	}})
}

// ExpireCodes ends the connections of devices whose codes nobody has scanned.
func (s *Server) ExpireCodes() {
	defer s.mu.Change()()
	for c := range s.conns {
		if c.refs != nil {
			s.work.Go(c.end)
		}
	}
}

// Scan is what the phone does with the code of a device: it signs the device's identity and sends it by way of the server.
func (s *Server) Scan(code string) error { return s.scan(code, nil) }

// ScanOther is Scan by somebody who has not seen the whole code: the secret in it is another one.
func (s *Server) ScanOther(code string) error { return s.scan(code, make([]byte, 32)) }

func (s *Server) scan(code string, secret []byte) error {
	parts := strings.Split(code, ",")
	if len(parts) != 4 {
		return fmt.Errorf("a code of %d parts, want 4", len(parts))
	}
	var raw [3][]byte // the keys of the handshake and of the device's identity, and the secret
	for i := range raw {
		b, err := base64.StdEncoding.DecodeString(parts[i+1])
		if err != nil || len(b) != 32 {
			return fmt.Errorf("part %d of the code is no key of 32 bytes", i+2)
		}
		raw[i] = b
	}
	if secret == nil {
		secret = raw[2]
	}
	defer s.mu.Change()()
	c := s.showing(parts[0])
	if c == nil {
		return errors.New("nobody shows this code")
	}
	if !bytes.Equal(raw[0], c.static[:]) || !bytes.Equal(raw[1], c.payload.GetDevicePairingData().GetEIdent()) {
		return errors.New("the code is of another device than the one that shows it")
	}
	return s.grant(c, secret)
}

func (s *Server) showing(ref string) *conn {
	for c := range s.conns {
		if slices.Contains(c.refs, ref) {
			return c
		}
	}
	return nil
}

// account returns the key that stands for the account: the identity of its phone.
func (s *Server) account() *keys.KeyPair { return s.phone.devices[0].store.IdentityKey }

// grant gives a device an identity that the phone has signed.
func (s *Server) grant(c *conn, secret []byte) error {
	c.refs, c.asked = nil, s.nextID()
	s.lastDevice++
	account := s.account()
	details, err := proto.Marshal(&waAdv.ADVDeviceIdentity{
		RawID: proto.Uint32(1), Timestamp: proto.Uint64(uint64(time.Now().Unix())), KeyIndex: proto.Uint32(uint32(s.lastDevice)),
	})
	if err != nil {
		return err
	}
	signs := slices.Concat(accountSigned, details, c.payload.GetDevicePairingData().GetEIdent())
	signature := ecc.CalculateSignature(ecc.NewDjbECPrivateKey(*account.Priv), signs)
	identity, err := proto.Marshal(&waAdv.ADVSignedDeviceIdentity{Details: details, AccountSignatureKey: account.Pub[:], AccountSignature: signature[:]})
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(identity)
	sealed, err := proto.Marshal(&waAdv.ADVSignedDeviceIdentityHMAC{Details: identity, HMAC: mac.Sum(nil)})
	if err != nil {
		return err
	}
	d := &device{id: s.lastDevice}
	c.send(binary.Node{Tag: "iq", Attrs: binary.Attrs{"from": types.ServerJID, "type": "set", "id": c.asked, "xmlns": "md"}, Content: []binary.Node{
		{Tag: "pair-success", Content: []binary.Node{
			{Tag: "device-identity", Content: sealed},
			{Tag: "device", Attrs: binary.Attrs{"jid": d.number(), "lid": d.hidden()}},
			{Tag: "platform", Attrs: binary.Attrs{"name": "android"}},
		}},
	}})
	return nil
}

// identityAnswered takes the device's signature. The session ends with it; the device comes back with a login.
func (s *Server) identityAnswered(c *conn, n *binary.Node) {
	if c.asked == "" || text(n, "id") != c.asked {
		return // the response to the codes, or an unexpected one
	}
	c.asked = ""
	if text(n, "type") == "error" {
		return // it ends the connection itself
	}
	d, err := s.enlist(c, bytesOf(n, "pair-device-sign", "device-identity"))
	if err != nil {
		s.complain("link the device: %v", err)
		c.cut()
		return
	}
	s.devices[d.id] = d
	if s.abrupt {
		s.abrupt = false
		c.cut()
		return
	}
	s.expel(c, streamError("515", ""))
}

// LinkAbruptly makes the next link end without the word that the device shall come back.
func (s *Server) LinkAbruptly() {
	defer s.mu.Change()()
	s.abrupt = true
}

// enlist verifies the device's signature of its identity, and stores its keys.
func (s *Server) enlist(c *conn, signed []byte) (*device, error) {
	identity := &waAdv.ADVSignedDeviceIdentity{}
	if err := proto.Unmarshal(signed, identity); err != nil {
		return nil, err
	}
	reg := c.payload.GetDevicePairingData()
	if len(identity.GetDeviceSignature()) != 64 || len(reg.GetEIdent()) != 32 || len(reg.GetERegid()) != 4 ||
		len(reg.GetESkeyID()) != 3 || len(reg.GetESkeyVal()) != 32 || len(reg.GetESkeySig()) != 64 {
		return nil, errors.New("keys of the wrong length")
	}
	key := ecc.NewDjbECPublicKey([32]byte(reg.GetEIdent()))
	signs := slices.Concat(deviceSigned, identity.GetDetails(), reg.GetEIdent(), s.account().Pub[:])
	if !ecc.VerifySignature(key, signs, [64]byte(identity.GetDeviceSignature())) {
		return nil, errors.New("the device has not signed its identity")
	}
	if !ecc.VerifySignature(key, append([]byte{ecc.DjbType}, reg.GetESkeyVal()...), [64]byte(reg.GetESkeySig())) {
		return nil, errors.New("the device has not signed its key")
	}
	id := reg.GetESkeyID()
	return &device{
		id: s.lastDevice, noise: c.static, identity: [32]byte(reg.GetEIdent()), registration: reg.GetERegid(), sent: map[string]bool{},
		signed: keys.PreKey{
			KeyID:   uint32(id[0])<<16 | uint32(id[1])<<8 | uint32(id[2]),
			KeyPair: keys.KeyPair{Pub: (*[32]byte)(reg.GetESkeyVal())}, Signature: (*[64]byte)(reg.GetESkeySig()),
		},
	}, nil
}
