package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
)

// attached answers with the handles of the files of a message.
func attached(_ context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
	var out []string
	for _, a := range turn.Message().Attachments {
		out = append(out, a.Handle)
	}
	return strings.Join(out, "\n"), nil
}

// kept waits for the answer of attached and returns the bytes of the one file of the message.
func (p pageDriver) kept(d *fixture) []byte {
	p.t.Helper()
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	data, ok := d.backend.Kept(p.eval(lastReply))
	if !ok {
		p.fatal("the host has no such file")
	}
	return data
}

// TestRecording records what a browser hears, which has a microphone that beeps, and lets the page use it or not.
func TestRecording(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint("allowed ", allowed), func(t *testing.T) {
			b := gatewaytest.Browser(t, chromedp.WindowSize(1180, 820), chromedp.ExecPath(gatewaytest.Chromium),
				chromedp.Flag("use-fake-device-for-media-stream", true), chromedp.Flag("use-fake-ui-for-media-stream", allowed))
			d := open(t, attached)
			p := visit(t, b, d)
			p.click("#record")
			if !allowed {
				p.until(`document.querySelector("#notice").textContent === "The browser does not let this page use the microphone. Its settings for this site can allow it."`)
				p.want(`document.querySelector("#record").disabled + " " + document.querySelector("#record").getAttribute("aria-pressed")`, "false false")
				p.axe("refused microphone")
				return
			}
			p.until(`document.querySelector("#record").getAttribute("aria-pressed") === "true"`)
			p.want(`document.querySelector("#record").getAttribute("aria-label")`, "Stop recording")
			p.until(`document.querySelector("#record").textContent === "0:02"`)
			p.shot("chat-recording")
			p.click("#record")
			p.until(`document.querySelector("#files li")?.textContent.includes("recording.webm") && !document.querySelector("#files").textContent.includes("sending")`)
			p.want(`document.querySelector("#record").getAttribute("aria-pressed")`, "false")
			p.say("listen")
			data := p.kept(d)
			if ebml := []byte{0x1a, 0x45, 0xdf, 0xa3}; !bytes.HasPrefix(data, ebml) || !bytes.Contains(data, []byte("A_OPUS")) {
				t.Errorf("what arrived has %d bytes, and is no recording", len(data))
			}
			p.want(bubbles, "listen+recording.webm")
			// A page that a browser does not trust has no microphone at all.
			p.eval(`Object.defineProperty(navigator, "mediaDevices", { value: undefined })`)
			p.click("#record")
			p.until(`document.querySelector("#notice").textContent.includes("over https only")`)
		})
	}
}

// TestCamera takes a picture with a phone, whose camera gives the page a file.
func TestCamera(t *testing.T) {
	d := open(t, attached)
	p := visit(t, browser(t), d)
	p.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	var taken bytes.Buffer
	if err := png.Encode(&taken, image.NewGray(image.Rect(0, 0, 64, 48))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "IMG 1.png")
	if err := os.WriteFile(path, taken.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if _, err := chromedp.Call(ctx, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	asked := chromedp.Events(ctx, page.FileChooserOpened)
	p.click("#camera")
	for e, err := range asked {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chromedp.Call(ctx, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{path}, BackendNodeID: e.BackendNodeID}); err != nil {
			t.Fatal(err)
		}
		break
	}
	p.until(`document.querySelector("#files li")?.textContent.includes("IMG 1.png") && !document.querySelector("#files").textContent.includes("sending")`)
	p.want(`document.documentElement.scrollWidth <= innerWidth`, "true")
	p.click("#send")
	if data := p.kept(d); !bytes.Equal(data, taken.Bytes()) {
		t.Errorf("%d bytes arrived of %d", len(data), taken.Len())
	}
}

// unforked is a host whose conversations cannot be forked.
type unforked struct{ conversations }

type conversations = gateway.Conversations

const cannotFork = "an agent CLI has answered here, which keeps its conversation itself: begin a new one"

func (unforked) Fork(context.Context, string, string, gateway.Fork, gateway.Caller) (gateway.Forked, error) {
	return gateway.Forked{}, store.Conflict(cannotFork)
}

// chatForksSay: a fork says what does not come with it, and one that cannot be made says why.
func chatForksSay(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.say("one")
	for _, c := range []struct {
		files snapshot.Copied
		want  string
	}{
		{snapshot.Copied{Files: 2}, "as they are now"}, {snapshot.Copied{Files: 1, Then: true}, "as they were then"},
		{snapshot.Copied{Why: "<i>no</i> room"}, "It has none of the files: <i>no</i> room."},
	} {
		d.backend.Forked = c.files
		p.visible(".fork")
		p.click(".fork")
		p.until(`document.querySelector("#notice.info")?.textContent.includes(` + jsString(c.want) + `)`)
	}
	p.say("two")
	p.until(idle + ` && document.querySelectorAll(".fork").length === 2`)
	p.want(`document.querySelector("#notice").hidden`, "true")
	d.with(func(f *gateway.Backend) { f.Conversations = unforked{f.Conversations} })
	p.reload()
	p.visible(".fork")
	address := p.eval("location.hash")
	p.click(".fork")
	p.until(`document.querySelector("#notice:not(.info)")?.textContent === ` + jsString(cannotFork))
	p.want("location.hash", address)
}
