package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyFrame draws a frame that side may receive.
func anyFrame(side Side) *rapid.Generator[Frame] {
	return rapid.Custom(func(t *rapid.T) Frame {
		f := Frame{Type: Type(rapid.IntRange(1, 40).Filter(func(n int) bool { return side.accepts(Type(n)) }).Draw(t, "type"))}
		switch f.Type {
		case Hello, Welcome, Renew, Pause, Adopt:
		case Connect, Drop:
			f.ID = ConnectionID(rapid.Uint32().Draw(t, "id"))
		case Data, End, Credit:
			f.ID = rapid.Uint32Min(1).Draw(t, "id")
		default:
			f.ID = rapid.Uint32Range(1, connectionBit-1).Draw(t, "id")
		}
		switch f.Type {
		case Data, End, Credit:
			f.Stream = uint8(rapid.IntRange(0, streams-1).Draw(t, "stream"))
		}
		least, most := 0, min(int(maxPayload(f.Type)), 40<<10)
		switch f.Type {
		case Credit:
			least = 4
		case Data:
			least = 1
		}
		f.Payload = bytes.Repeat([]byte{byte(f.Type)}, rapid.IntRange(least, most).Draw(t, "size"))
		return f
	})
}

// Every frame that is written is read, however the bytes are cut on the way.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.SampledFrom([]Side{HostSide, SupervisorSide}).Draw(t, "side")
		want := rapid.SliceOfN(anyFrame(side), 1, 8).Draw(t, "frames")
		var wire bytes.Buffer
		if err := NewWriter(&wire).Send(want...); err != nil {
			t.Fatal(err)
		}
		var src io.Reader = &wire
		switch rapid.IntRange(0, 2).Draw(t, "cut") {
		case 1:
			src = iotest.HalfReader(src)
		case 2:
			src = iotest.DataErrReader(src)
		}
		r := NewReader(src, side)
		for i, w := range want {
			got, err := r.Next()
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			if diff := cmp.Diff(w, got); diff != "" {
				t.Fatalf("frame %d (-want +got):\n%s", i, diff)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("after the last frame: %v", err)
		}
	})
}

func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		side Side
		wire []byte
		want error
	}{
		{"nothing", HostSide, nil, io.EOF},
		{"half a header", HostSide, []byte{0, 0, 0}, io.ErrUnexpectedEOF},
		{"half a payload", HostSide, []byte{0, 0, 0, 9, byte(Exit), 0, 0, 0, 0, 0, 0, 1, '{'}, io.ErrUnexpectedEOF},
		{"unknown type", HostSide, []byte{0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"host's type at the host", HostSide, []byte{0, 0, 0, 0, byte(Exec), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"supervisor's type at it", SupervisorSide, []byte{0, 0, 0, 0, byte(Exit), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"reserved bytes", HostSide, []byte{0, 0, 0, 0, byte(End), 0, 0, 1, 0, 0, 0, 1}, ErrProtocol},
		{"stream 3", HostSide, []byte{0, 0, 0, 0, byte(End), 3, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"stream on control", HostSide, []byte{0, 0, 0, 0, byte(Exit), 1, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"request 0", HostSide, []byte{0, 0, 0, 0, byte(Exit), 0, 0, 0, 0, 0, 0, 0}, ErrProtocol},
		{"welcome with a request", HostSide, []byte{0, 0, 0, 0, byte(Welcome), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"too long", HostSide, []byte{0, 4, 0, 1, byte(Exit), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"huge", HostSide, []byte{0xff, 0xff, 0xff, 0xff, byte(Exit), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"data too long", HostSide, []byte{0, 1, 0, 1, byte(Data), 1, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"empty data", HostSide, []byte{0, 0, 0, 0, byte(Data), 1, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"short credit", HostSide, []byte{0, 0, 0, 3, byte(Credit), 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, ErrProtocol},
		{"request with a connection's id", SupervisorSide, []byte{0, 0, 0, 0, byte(Exec), 0, 0, 0, 0x80, 0, 0, 1}, ErrProtocol},
		{"connection with a request's id", HostSide, []byte{0, 0, 0, 0, byte(Connect), 0, 0, 0, 0, 0, 0, 1}, ErrProtocol},
		{"connection opened by the host", SupervisorSide, []byte{0, 0, 0, 0, byte(Connect), 0, 0, 0, 0x80, 0, 0, 1}, ErrProtocol},
		{"drop with a payload", HostSide, []byte{0, 0, 0, 1, byte(Drop), 0, 0, 0, 0x80, 0, 0, 1, 0}, ErrProtocol},
		{"end with a payload", HostSide, []byte{0, 0, 0, 1, byte(End), 1, 0, 0, 0, 0, 0, 1, 0}, ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f, err := NewReader(bytes.NewReader(c.wire), c.side).Next(); !errors.Is(err, c.want) {
				t.Errorf("got %+v (%v), want %v", f, err, c.want)
			}
		})
	}
}

func TestDecodeIsStrict(t *testing.T) {
	for name, wire := range map[string]string{
		"no JSON": "x", "unknown field": `{"pid":1,"x":2}`, "trailing": `{"pid":1} 2`, "wrong type": `{"pid":"1"}`, "empty": "",
	} {
		var b StartedBody
		if err := Decode([]byte(wire), &b); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzReader feeds hostile bytes: the reader must not panic, must not keep more than one frame, and
// what it accepts must survive a round trip.
func FuzzReader(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add(Frame{Type: Exit, ID: 1, Payload: Encode(ExitBody{ExitCode: -1, Kill: &KillBody{Rung: "uid"}})}.Append(nil), true)
	f.Add(Frame{Type: Exec, ID: 7, Payload: Encode(ExecBody{Script: []byte("true")})}.Append(nil), false)
	f.Add(Frame{Type: Data, Stream: Err, ID: 1, Payload: []byte("x")}.Append(Frame{Type: Credit, ID: 2, Payload: []byte{0, 0, 0, 1}}.Append(nil)), true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true)
	f.Fuzz(func(t *testing.T, wire []byte, host bool) {
		side := SupervisorSide
		if host {
			side = HostSide
		}
		r := NewReader(iotest.HalfReader(bytes.NewReader(wire)), side)
		var again []byte
		for {
			got, err := r.Next()
			if err != nil {
				break
			}
			again = got.Append(again)
			var body ExitBody
			_ = Decode(got.Payload, &body)
		}
		if len(r.buf) > headerSize+MaxPayload {
			t.Errorf("buffer grew to %d bytes", len(r.buf))
		}
		if !bytes.HasPrefix(wire, again) {
			t.Error("accepted frames do not encode to what was read")
		}
	})
}

// A writer that has failed sends nothing more: half a frame may be out.
func TestWriterStaysBroken(t *testing.T) {
	broken := errors.New("broken")
	w := NewWriter(writerFunc(func([]byte) (int, error) { return 3, broken }))
	for range 2 {
		if err := w.Send(Frame{Type: End, ID: 1}); err != broken {
			t.Errorf("got %v", err)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
