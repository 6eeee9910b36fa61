package linkedtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.mau.fi/libsignal/ecc"
	"go.mau.fi/libsignal/groups"
	"go.mau.fi/libsignal/keys/identity"
	"go.mau.fi/libsignal/keys/prekey"
	"go.mau.fi/libsignal/protocol"
	"go.mau.fi/libsignal/session"
	"go.mau.fi/libsignal/util/optional"
	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/store"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/util/keys"
	"google.golang.org/protobuf/proto"
)

var serializer = store.SignalProtobufSerializer

// peer is a device of a person, with its Signal sessions. Server.mu guards it.
type peer struct {
	person *Person
	id     uint16
	store  *store.Device
	memory *memory
}

func newPeer(p *Person, id uint16) *peer {
	m := &memory{identities: map[string][32]byte{}, sessions: map[string][]byte{}, preKeys: map[uint32]*keys.PreKey{}, senderKeys: map[string][]byte{}}
	own := keys.NewKeyPair()
	return &peer{person: p, id: id, memory: m, store: &store.Device{
		IdentityKey: own, SignedPreKey: own.CreateSignedPreKey(1), RegistrationID: 1000 + uint32(id), Identities: m, Sessions: m, PreKeys: m, SenderKeys: m,
	}}
}

// named returns the address of the device, by the number or by the hidden id.
func (p *peer) named(server string) types.JID {
	j := p.person.Number
	if server == types.HiddenUserServer {
		j = p.person.Hidden
	}
	j.Device = p.id
	return j
}

// peer finds a device by either name. s.mu is held.
func (s *Server) peer(j types.JID) *peer {
	for _, p := range s.people {
		for _, d := range p.devices {
			if d.named(j.Server) == j {
				return d
			}
		}
	}
	return nil
}

// keys returns the keys with which others begin a session.
func (p *peer) keys() []wa.Node {
	return []wa.Node{
		{Tag: "registration", Content: registration(p.store.RegistrationID)},
		{Tag: "type", Content: []byte{ecc.DjbType}},
		{Tag: "identity", Content: p.store.IdentityKey.Pub[:]},
		preKey("skey", *p.store.SignedPreKey),
		preKey("key", *p.memory.fresh()),
	}
}

// bundle is the same of a linked device: its next key is given away.
func (d *device) bundle() *prekey.Bundle {
	id, key := optional.NewEmptyUint32(), ecc.ECPublicKeyable(nil)
	if len(d.once) > 0 {
		id, key = optional.NewOptionalUint32(d.once[0].KeyID), ecc.NewDjbECPublicKey(*d.once[0].Pub)
		d.once = d.once[1:]
	}
	return prekey.NewBundle(binary.BigEndian.Uint32(d.registration), uint32(d.id), id, d.signed.KeyID, key,
		ecc.NewDjbECPublicKey(*d.signed.Pub), *d.signed.Signature, identity.NewKey(ecc.NewDjbECPublicKey(d.identity)))
}

// seal encrypts a message for a linked device: "pkmsg" until it has answered, "msg" from then on.
func (p *peer) seal(d *device, m *waE2E.Message) (wa.Node, error) {
	ctx, address := context.Background(), d.hidden().SignalAddress()
	builder := session.NewBuilderFromSignal(p.store, address, serializer)
	if _, known := p.memory.sessions[address.String()]; !known {
		if err := builder.ProcessBundle(ctx, d.bundle()); err != nil {
			return wa.Node{}, fmt.Errorf("begin a session: %w", err)
		}
	}
	plain, err := padded(m)
	if err != nil {
		return wa.Node{}, err
	}
	sealed, err := session.NewCipher(builder, address).Encrypt(ctx, plain)
	if err != nil {
		return wa.Node{}, fmt.Errorf("encrypt: %w", err)
	}
	kind := "msg"
	if sealed.Type() == protocol.PREKEY_TYPE {
		kind = "pkmsg"
	}
	return wa.Node{Tag: "enc", Attrs: wa.Attrs{"v": "2", "type": kind}, Content: sealed.Serialize()}, nil
}

// open decrypts a message of a linked device.
func (p *peer) open(d *device, enc *wa.Node) (*waE2E.Message, error) {
	ctx, address := context.Background(), d.hidden().SignalAddress()
	sealed, _ := enc.Content.([]byte)
	cipher := session.NewCipher(session.NewBuilderFromSignal(p.store, address, serializer), address)
	switch kind := text(enc, "type"); kind {
	case "pkmsg":
		m, err := protocol.NewPreKeySignalMessageFromBytes(sealed, serializer.PreKeySignalMessage, serializer.SignalMessage)
		if err != nil {
			return nil, err
		}
		return unpadded(cipher.DecryptMessage(ctx, m))
	case "msg":
		m, err := protocol.NewSignalMessageFromBytes(sealed, serializer.SignalMessage)
		if err != nil {
			return nil, err
		}
		return unpadded(cipher.Decrypt(ctx, m))
	default:
		return nil, fmt.Errorf("a message of type %q", kind)
	}
}

// forget loses the session with a device, as after a new installation.
func (p *peer) forget(d *device) { delete(p.memory.sessions, d.hidden().SignalAddress().String()) }

// groupKey returns the key with which a device encrypts in a group; it begins with the message that distributes it.
func (p *peer) groupKey(group types.JID) (*protocol.SenderKeyName, *waE2E.Message, error) {
	name := protocol.NewSenderKeyName(group.String(), p.named(types.HiddenUserServer).SignalAddress())
	key, err := groups.NewGroupSessionBuilder(p.store, serializer).Create(context.Background(), name)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of a group: %w", err)
	}
	return name, &waE2E.Message{SenderKeyDistributionMessage: &waE2E.SenderKeyDistributionMessage{
		GroupID: proto.String(group.String()), AxolotlSenderKeyDistributionMessage: key.Serialize(),
	}}, nil
}

// sealGroup encrypts a message for everybody who has the key.
func (p *peer) sealGroup(name *protocol.SenderKeyName, m *waE2E.Message) (wa.Node, error) {
	plain, err := padded(m)
	if err != nil {
		return wa.Node{}, err
	}
	sealed, err := groups.NewGroupCipher(groups.NewGroupSessionBuilder(p.store, serializer), name, p.store).Encrypt(context.Background(), plain)
	if err != nil {
		return wa.Node{}, fmt.Errorf("encrypt for a group: %w", err)
	}
	return wa.Node{Tag: "enc", Attrs: wa.Attrs{"v": "2", "type": "skmsg"}, Content: sealed.(*protocol.SenderKeyMessage).SignedSerialize()}, nil
}

// learn takes the key of a linked device in a group.
func (p *peer) learn(d *device, group types.JID, m *waE2E.SenderKeyDistributionMessage) error {
	key, err := protocol.NewSenderKeyDistributionMessageFromBytes(m.GetAxolotlSenderKeyDistributionMessage(), serializer.SenderKeyDistributionMessage)
	if err != nil {
		return err
	}
	name := protocol.NewSenderKeyName(group.String(), d.hidden().SignalAddress())
	return groups.NewGroupSessionBuilder(p.store, serializer).Process(context.Background(), name, key)
}

// openGroup decrypts a group message of a linked device.
func (p *peer) openGroup(d *device, group types.JID, enc *wa.Node) (*waE2E.Message, error) {
	sealed, _ := enc.Content.([]byte)
	m, err := protocol.NewSenderKeyMessageFromBytes(sealed, serializer.SenderKeyMessage)
	if err != nil {
		return nil, err
	}
	name := protocol.NewSenderKeyName(group.String(), d.hidden().SignalAddress())
	return unpadded(groups.NewGroupCipher(groups.NewGroupSessionBuilder(p.store, serializer), name, p.store).Decrypt(context.Background(), m))
}

// padded hides the length of a message: 1 to 15 bytes behind it, each of which says how many.
func padded(m *waE2E.Message) ([]byte, error) {
	plain, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	var n [1]byte
	_, _ = rand.Read(n[:])
	n[0] = n[0]%15 + 1
	return append(plain, bytes.Repeat(n[:], int(n[0]))...), nil
}

func unpadded(plain []byte, err error) (*waE2E.Message, error) {
	if err != nil {
		return nil, err
	}
	if len(plain) == 0 || int(plain[len(plain)-1]) > len(plain) {
		return nil, errors.New("a message without padding")
	}
	m := &waE2E.Message{}
	return m, proto.Unmarshal(plain[:len(plain)-int(plain[len(plain)-1])], m)
}

// memory is a store of keys and sessions. Methods that Signal does not use come from the embedded store, which does nothing.
type memory struct {
	store.NoopStore
	identities map[string][32]byte
	sessions   map[string][]byte
	preKeys    map[uint32]*keys.PreKey
	senderKeys map[string][]byte
	lastKey    uint32
}

// fresh makes a key that is used once.
func (m *memory) fresh() *keys.PreKey {
	m.lastKey++
	k := keys.NewPreKey(m.lastKey)
	m.preKeys[k.KeyID] = k
	return k
}

// PutIdentity implements store.IdentityStore.
func (m *memory) PutIdentity(_ context.Context, address string, key [32]byte) error {
	m.identities[address] = key
	return nil
}

// IsTrustedIdentity implements store.IdentityStore: the first one counts.
func (m *memory) IsTrustedIdentity(_ context.Context, address string, key [32]byte) (bool, error) {
	known, ok := m.identities[address]
	return !ok || known == key, nil
}

// GetSession implements store.SessionStore.
func (m *memory) GetSession(_ context.Context, address string) ([]byte, error) {
	return m.sessions[address], nil
}

// HasSession implements store.SessionStore.
func (m *memory) HasSession(_ context.Context, address string) (bool, error) {
	return m.sessions[address] != nil, nil
}

// PutSession implements store.SessionStore.
func (m *memory) PutSession(_ context.Context, address string, session []byte) error {
	m.sessions[address] = slices.Clone(session)
	return nil
}

// GetPreKey implements store.PreKeyStore.
func (m *memory) GetPreKey(_ context.Context, id uint32) (*keys.PreKey, error) {
	return m.preKeys[id], nil
}

// RemovePreKey implements store.PreKeyStore.
func (m *memory) RemovePreKey(_ context.Context, id uint32) error {
	delete(m.preKeys, id)
	return nil
}

// PutSenderKey implements store.SenderKeyStore.
func (m *memory) PutSenderKey(_ context.Context, group, user string, key []byte) error {
	m.senderKeys[group+" "+user] = slices.Clone(key)
	return nil
}

// GetSenderKey implements store.SenderKeyStore.
func (m *memory) GetSenderKey(_ context.Context, group, user string) ([]byte, error) {
	return m.senderKeys[group+" "+user], nil
}
