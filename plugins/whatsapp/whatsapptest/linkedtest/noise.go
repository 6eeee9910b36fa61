package linkedtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"go.mau.fi/libsignal/ecc"
	"go.mau.fi/whatsmeow/proto/waCert"
	"go.mau.fi/whatsmeow/proto/waWa6"
	"go.mau.fi/whatsmeow/util/keys"
	"google.golang.org/protobuf/proto"
)

// protocolName is the Noise pattern. With its zeros it is as long as a hash, so it is the first one.
const protocolName = "Noise_XX_25519_AESGCM_SHA256\x00\x00\x00\x00"

// root signs the certificates of every fake. It is no secret: only a test that sets whatsmeow.WACertPubKey to Root trusts it.
func root() *keys.KeyPair {
	private := sha256.Sum256([]byte("linkedtest"))
	private[0] &= 248
	private[31] = private[31]&127 | 64
	return keys.NewKeyPairFromPrivateKey(private)
}

// Root returns the key that a client has to know as the one of WhatsApp.
func Root() [32]byte { return *root().Pub }

// certificate returns the chain for a static key: the root signs an intermediate one, which signs the key.
func certificate(static *keys.KeyPair) ([]byte, error) {
	intermediate := keys.NewKeyPair()
	middle, err := signed(root(), intermediate, 1, 0)
	if err != nil {
		return nil, err
	}
	leaf, err := signed(intermediate, static, 2, 1)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&waCert.CertChain{Intermediate: middle, Leaf: leaf})
}

func signed(by, key *keys.KeyPair, serial, issuer uint32) (*waCert.CertChain_NoiseCertificate, error) {
	details, err := proto.Marshal(&waCert.CertChain_NoiseCertificate_Details{Serial: &serial, IssuerSerial: &issuer, Key: key.Pub[:]})
	if err != nil {
		return nil, err
	}
	signature := ecc.CalculateSignature(ecc.NewDjbECPrivateKey(*by.Priv), details)
	return &waCert.CertChain_NoiseCertificate{Details: details, Signature: signature[:]}, nil
}

// noise is the symmetric state of a handshake (Noise Protocol Framework, section 5.2).
type noise struct {
	hash, chain []byte
	key         cipher.AEAD
	nonce       uint32
}

func newNoise(prologue []byte) *noise {
	n := &noise{hash: []byte(protocolName), chain: []byte(protocolName)}
	n.mixHash(prologue)
	return n
}

func (n *noise) mixHash(data []byte) {
	h := sha256.New()
	h.Write(n.hash)
	h.Write(data)
	n.hash = h.Sum(nil)
}

// mixKey takes the secret that two keys share.
func (n *noise) mixKey(private *ecdh.PrivateKey, public []byte) error {
	other, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return err
	}
	secret, err := private.ECDH(other)
	if err != nil {
		return err
	}
	var key []byte
	if n.chain, key, err = twoKeys(n.chain, secret); err != nil {
		return err
	}
	n.nonce = 0
	n.key, err = aead(key)
	return err
}

func (n *noise) encrypt(plain []byte) []byte {
	out := n.key.Seal(nil, nonceOf(n.nonce), plain, n.hash)
	n.nonce++
	n.mixHash(out)
	return out
}

func (n *noise) decrypt(sealed []byte) ([]byte, error) {
	plain, err := n.key.Open(nil, nonceOf(n.nonce), sealed, n.hash)
	if err != nil {
		return nil, err
	}
	n.nonce++
	n.mixHash(sealed)
	return plain, nil
}

// split ends the handshake: the keys of the client's frames and of the server's.
func (n *noise) split() (client, server cipher.AEAD, err error) {
	first, second, err := twoKeys(n.chain, nil)
	if err != nil {
		return nil, nil, err
	}
	if client, err = aead(first); err != nil {
		return nil, nil, err
	}
	server, err = aead(second)
	return client, server, err
}

func twoKeys(chain, secret []byte) (first, second []byte, err error) {
	both, err := hkdf.Key(sha256.New, secret, chain, "", 64)
	if err != nil {
		return nil, nil, err
	}
	return both[:32], both[32:], nil
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func nonceOf(count uint32) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint32(nonce[8:], count)
	return nonce
}

// handshake is the responder's side. Afterwards the client's key and what it says of itself are known.
func (c *conn) handshake(prologue []byte, static *keys.KeyPair) error {
	n := newNoise(prologue)
	hello := &waWa6.HandshakeMessage{}
	if err := c.readProto(hello); err != nil {
		return fmt.Errorf("read the client's hello: %w", err)
	}
	theirs := hello.GetClientHello().GetEphemeral()
	n.mixHash(theirs)
	ephemeral, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	n.mixHash(ephemeral.PublicKey().Bytes())
	if err := n.mixKey(ephemeral, theirs); err != nil {
		return fmt.Errorf("use the client's ephemeral key: %w", err)
	}
	sealedStatic := n.encrypt(static.Pub[:])
	long, err := ecdh.X25519().NewPrivateKey(static.Priv[:])
	if err != nil {
		return err
	}
	if err := n.mixKey(long, theirs); err != nil {
		return err
	}
	chain, err := certificate(static)
	if err != nil {
		return err
	}
	if err := c.writeProto(&waWa6.HandshakeMessage{ServerHello: &waWa6.HandshakeMessage_ServerHello{
		Ephemeral: ephemeral.PublicKey().Bytes(), Static: sealedStatic, Payload: n.encrypt(chain),
	}}); err != nil {
		return fmt.Errorf("send the server's hello: %w", err)
	}
	return c.finish(n, ephemeral)
}

// finish reads the last message of the handshake.
func (c *conn) finish(n *noise, ephemeral *ecdh.PrivateKey) error {
	last := &waWa6.HandshakeMessage{}
	if err := c.readProto(last); err != nil {
		return fmt.Errorf("read the client's last message: %w", err)
	}
	static, err := n.decrypt(last.GetClientFinish().GetStatic())
	if err != nil || len(static) != 32 {
		return errors.Join(errors.New("read the client's static key"), err)
	}
	if err := n.mixKey(ephemeral, static); err != nil {
		return fmt.Errorf("use the client's static key: %w", err)
	}
	payload, err := n.decrypt(last.GetClientFinish().GetPayload())
	if err != nil {
		return fmt.Errorf("read what the client says of itself: %w", err)
	}
	c.static, c.payload = [32]byte(static), &waWa6.ClientPayload{}
	if err := proto.Unmarshal(payload, c.payload); err != nil {
		return fmt.Errorf("read what the client says of itself: %w", err)
	}
	c.in, c.out, err = n.split()
	return err
}
