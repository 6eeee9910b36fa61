package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// link is one connection to the server, from the greeting to its end.
type link struct {
	settings settings
	conn     net.Conn
	flood    *channel.Pace
	id       string // random; makes event ids unique where the server has none

	write sync.Mutex // one line at a time

	mu       sync.Mutex
	nick     string // our own, as the server knows it
	host     string // our "user@host" as others see it, once known
	pongs    map[string]chan struct{}
	refusals map[string]refusal // by folded target, since the last send to it
	tokens   int

	members  *members // of the goroutine that reads
	accounts bool     // the server tags messages with the sender's account; set before the welcome

	live context.Context // ends when the server does not respond any more
	end  context.CancelFunc
}

// refusal is how many lines the server would not deliver, and why.
type refusal struct {
	lines int
	why   string
}

// Deadlines of a connection.
const (
	dialTimeout  = 20 * time.Second
	greetTimeout = 60 * time.Second
	writeTimeout = 20 * time.Second
	idlePing     = 60 * time.Second // silence after which we ask
	idleDead     = 120 * time.Second
)

// dial connects and registers. It returns after the server's welcome.
func dial(ctx context.Context, s settings) (*link, *bufio.Reader, error) {
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var conn net.Conn
	var err error
	if s.TLS {
		conn, err = (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(dialCtx, "tcp", s.Address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(dialCtx, "tcp", s.Address)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", s.Address, err)
	}
	l := &link{
		settings: s, conn: conn, nick: s.Nick, id: rand.Text(), pongs: map[string]chan struct{}{}, refusals: map[string]refusal{},
		members: newMembers(),
		flood:   channel.NewPace(s.FloodBurst, s.interval()),
	}
	l.live, l.end = context.WithCancel(context.Background())
	in := bufio.NewReaderSize(conn, maxTags+maxLine)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	conn.SetDeadline(time.Now().Add(greetTimeout))
	if err := l.register(in); err != nil {
		conn.Close()
		return nil, nil, errors.Join(ctx.Err(), fmt.Errorf("register with %s: %w", s.Address, err))
	}
	conn.SetDeadline(time.Time{})
	return l, in, nil
}

// accountTag has the server mark each message with the account that its sender is logged in to.
const accountTag = "account-tag"

// wanted are the capabilities that we can use.
var wanted = []string{accountTag, "message-tags", "server-time", "multi-prefix", "sasl"}

// register introduces us: capabilities, SASL where configured, nick and user.
func (l *link) register(in *bufio.Reader) error {
	hello := [][]string{{"CAP", "LS", "302"}}
	if l.settings.password != "" {
		hello = append(hello, []string{"PASS", l.settings.password})
	}
	hello = append(hello, []string{"NICK", l.nick}, []string{"USER", l.settings.User, "0", "*", l.settings.RealName})
	for _, h := range hello {
		if err := l.send(h[0], h[1:]...); err != nil {
			return err
		}
	}
	for {
		m, err := readLine(in)
		if err != nil {
			return err
		}
		welcome, err := l.greet(m)
		if welcome || err != nil {
			return err
		}
	}
}

// greet answers one line of the time before the welcome.
func (l *link) greet(m line) (welcome bool, err error) {
	switch m.command {
	case "001":
		l.setNick(m.param(0))
		return true, nil
	case "PING":
		return false, l.send("PONG", m.last())
	case "433", "432", "437": // the nick is taken or not allowed: try another
		return false, l.otherNick()
	case "CAP":
		return false, l.capability(m)
	case "AUTHENTICATE":
		plain := l.settings.Account + "\x00" + l.settings.Account + "\x00" + l.settings.sasl
		return false, l.send("AUTHENTICATE", base64.StdEncoding.EncodeToString([]byte(plain)))
	case "903":
		return false, l.send("CAP", "END")
	case "902", "904", "905", "906", "907":
		return false, &authError{"the server refused the account's password"}
	case "464", "465":
		return false, &authError{plainText(m.last())}
	case "ERROR":
		return false, fmt.Errorf("server closed the connection: %s", plainText(m.last()))
	}
	return false, nil
}

// authError means that no try can succeed until a person renews a credential.
type authError struct{ why string }

func (e *authError) Error() string { return "not let in: " + e.why }

func (l *link) capability(m line) error {
	offered := strings.Fields(m.last())
	switch m.param(1) {
	case "LS":
		var ask []string
		for _, c := range offered {
			name, _, _ := strings.Cut(c, "=")
			if slices.Contains(wanted, name) && (name != "sasl" || l.settings.Account != "") {
				ask = append(ask, name)
			}
		}
		if len(ask) > 0 {
			return l.send("CAP", "REQ", strings.Join(ask, " "))
		}
		if l.settings.Account != "" {
			return &authError{"the server offers no SASL, and an account is configured"}
		}
	case "ACK":
		l.accounts = slices.Contains(offered, accountTag)
		if slices.Contains(offered, "sasl") {
			return l.send("AUTHENTICATE", "PLAIN")
		}
	}
	return l.send("CAP", "END")
}

func (l *link) otherNick() error {
	nick := l.ownNick()
	if len(nick) > len(l.settings.Nick)+4 {
		return fmt.Errorf("nickname %s and its variations are taken", l.settings.Nick)
	}
	l.setNick(nick + "_")
	return l.send("NICK", nick+"_")
}

// read passes every line to handle until the connection ends, and sends a ping when the server is silent.
func (l *link) read(ctx context.Context, in *bufio.Reader, handle func(line) error) error {
	defer l.end()
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	asked := false
	for {
		l.conn.SetReadDeadline(time.Now().Add(idlePing))
		if asked {
			l.conn.SetReadDeadline(time.Now().Add(idleDead - idlePing))
		}
		m, err := readLine(in)
		var slow net.Error
		if errors.As(err, &slow) && slow.Timeout() && !asked && ctx.Err() == nil {
			asked = true
			if err := l.send("PING", "flynn"); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("read from %s: %w", l.settings.Address, err))
		}
		asked = false
		if err := handle(m); err != nil {
			return err
		}
	}
}

// readLine reads the next line that can be parsed. One that is too long or malformed is skipped.
func readLine(in *bufio.Reader) (line, error) {
	for {
		raw, err := in.ReadSlice('\n')
		for err == bufio.ErrBufferFull { // too long: skip to its end
			_, err = in.ReadSlice('\n')
			raw = nil
		}
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return line{}, err
		}
		if m, err := parseLine(strings.TrimRight(string(raw), "\r\n")); err == nil {
			return m, nil
		}
	}
}

// send writes one line at once, bypassing the flood control: for the protocol itself.
func (l *link) send(command string, params ...string) error {
	text, err := formatLine(command, params...)
	if err != nil {
		return err
	}
	l.write.Lock()
	defer l.write.Unlock()
	return l.put(text)
}

// put writes; l.write is held.
func (l *link) put(text string) error {
	l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := io.WriteString(l.conn, text); err != nil {
		return fmt.Errorf("write to %s: %w", l.settings.Address, err)
	}
	return nil
}

// sayTime is how long one call of say may begin new lines: those are the lines whose outcome may be unknown when the connection ends.
const sayTime = 10 * time.Second

// say sends lines of one answer, as many as it may within a while, and waits until the server has worked through them: it answers a PING
// after them, in order. written is the number of lines that may have been delivered; without an error they were.
func (l *link) say(ctx context.Context, conversation, target string, pieces []piece) (written int, err error) {
	l.mu.Lock()
	delete(l.refusals, fold(target))
	l.mu.Unlock()
	waits, cancel := context.WithCancel(channel.Patience(ctx))
	defer cancel()
	defer context.AfterFunc(l.live, cancel)()
	began := time.Now()
	for written < len(pieces) && (written == 0 || time.Since(began) < sayTime) {
		text, err := formatLine("PRIVMSG", target, pieces[written].text)
		if err != nil {
			return written, err
		}
		if err := l.flood.Wait(waits, conversation); err != nil {
			if written == 0 {
				return 0, fmt.Errorf("wait for a turn among the lines to send: %w", err)
			}
			break
		}
		l.write.Lock()
		written++
		err = l.put(text)
		l.write.Unlock()
		if err != nil {
			return written, err
		}
	}
	if err := l.roundTrip(ctx); err != nil {
		return written, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, refused := l.refusals[fold(target)]; refused {
		delete(l.refusals, fold(target))
		return written - r.lines, &refusedError{target, r.why}
	}
	return written, nil
}

// refusedError means that the server refused to deliver.
type refusedError struct{ target, why string }

func (e *refusedError) Error() string { return fmt.Sprintf("send to %s: %s", e.target, e.why) }

func (l *link) roundTrip(ctx context.Context) error {
	l.mu.Lock()
	l.tokens++
	token := "f" + strconv.Itoa(l.tokens)
	pong := make(chan struct{})
	l.pongs[token] = pong
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.pongs, token)
		l.mu.Unlock()
	}()
	if err := l.send("PING", token); err != nil {
		return err
	}
	select {
	case <-pong:
		return nil
	case <-l.live.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait for the server: %w", ctx.Err())
	}
	select {
	case <-pong: // everything before it has arrived
		return nil
	default:
		return errors.New("wait for the server: the connection ended")
	}
}

func (l *link) pong(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.pongs[token]; ok {
		close(c)
		delete(l.pongs, token)
	}
}

// refuse records why the server refused to deliver to a target.
func (l *link) refuse(target, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.refusals[fold(target)]; ok || len(l.refusals) < 1000 {
		l.refusals[fold(target)] = refusal{r.lines + 1, why}
	}
}

func (l *link) ownNick() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nick
}

func (l *link) setNick(nick string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nick = nick
}

func (l *link) setHost(source string) {
	_, host, _ := strings.Cut(source, "!")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.host = host
}

// room returns how many bytes of text fit a PRIVMSG to target as others receive it, with our source in front.
func (l *link) room(target string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	source := len(l.host)
	if source == 0 {
		source = 10 + 1 + 63 // the longest user@host there is
	}
	return maxLine - len(":!  PRIVMSG  :\r\n") - len(l.nick) - source - len(target)
}
