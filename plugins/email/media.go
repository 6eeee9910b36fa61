package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

// maxAttachment bounds an attachment in either direction, and all of one mail on its way out, in bytes.
const maxAttachment = 25 << 20

// handle is where a part lies: UIDVALIDITY, UID, number of the part, its encoding.
var handle = regexp.MustCompile(`^([0-9]{1,10})/([0-9]{1,10})/([0-9]{1,3}(?:\.[0-9]{1,3}){0,9})/(base64|quoted-printable|plain)$`)

type part struct {
	validity uint32
	uid      imap.UID
	number   []int
	encoding string
}

func parseHandle(s string) (part, error) {
	m := handle.FindStringSubmatch(s)
	if m == nil {
		return part{}, errors.New("the handle is not one of this plugin")
	}
	validity, err1 := strconv.ParseUint(m[1], 10, 32)
	uid, err2 := strconv.ParseUint(m[2], 10, 32)
	if err1 != nil || err2 != nil || uid == 0 {
		return part{}, errors.New("the handle is not one of this plugin")
	}
	out := part{validity: uint32(validity), uid: imap.UID(uid), encoding: m[4]}
	for word := range strings.SplitSeq(m[3], ".") {
		n, _ := strconv.Atoi(word) // three digits
		if n == 0 {
			return part{}, errors.New("the handle is not one of this plugin")
		}
		out.number = append(out.number, n)
	}
	return out, nil
}

// Fetch implements channel.Fetcher.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	at, err := parseHandle(handle)
	if err != nil {
		return channel.Media{}, status.Error(codes.InvalidArgument, err.Error())
	}
	c, err := p.settings.imap(ctx, nil)
	if err != nil {
		return channel.Media{}, err
	}
	now, err := c.open(p.settings.Mailbox)
	if err == nil && now.UIDValidity != at.validity {
		err = status.Error(codes.NotFound, "the server has numbered the mailbox anew: the attachment cannot be found any more")
	}
	if err != nil {
		c.end()
		return channel.Media{}, err
	}
	body, leave, err := c.part(at)
	if err != nil {
		c.end()
		return channel.Media{}, err
	}
	return channel.Media{Body: channel.Bounded(body, maxAttachment, func() {
		_ = c.conn.Close() // the unread rest is not needed
		leave()
		c.end()
	})}, nil
}

// part begins to fetch a part and decodes it. leave reads the rest.
func (s *session) part(at part) (body io.Reader, leave func(), err error) {
	section := &imap.FetchItemBodySection{Part: at.number, Peek: true}
	fetch := s.Client.Fetch(imap.UIDSetNum(at.uid), &imap.FetchOptions{BodySection: []*imap.FetchItemBodySection{section}})
	for data := fetch.Next(); data != nil; data = fetch.Next() {
		for item := data.Next(); item != nil; item = data.Next() {
			if found, ok := item.(imapclient.FetchItemDataBodySection); ok && found.Literal != nil {
				body, err := decode(at.encoding, &exact{from: found.Literal, left: found.Literal.Size()})
				if err != nil {
					_ = fetch.Close()
				}
				return body, func() { _ = fetch.Close() }, err
			}
		}
	}
	if err := fetch.Close(); err != nil {
		return nil, nil, fmt.Errorf("fetch an attachment: %w", err)
	}
	return nil, nil, status.Error(codes.NotFound, "the mail is gone from the mailbox, or has no such attachment")
}

func decode(encoding string, r io.Reader) (io.Reader, error) {
	var h message.Header
	h.Set("Content-Type", "application/octet-stream")
	if encoding != "plain" {
		h.Set("Content-Transfer-Encoding", encoding)
	}
	e, err := message.New(h, r)
	if err != nil {
		return nil, err
	}
	return e.Body, nil
}

// exact is a reader that fails if it ends before left bytes were read.
type exact struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (e *exact) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
