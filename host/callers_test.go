package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// operations says for every operation what comes of it. In a path, {me} and {person} are the sender of the person whose
// things are named, {talk} and {old} are conversations of his, {turn} is a turn, {logout} a sign-in, and {ask} a request of his for approval.
var operations = map[string]struct {
	path  string // with its query, if it differs from the operation's
	body  string // text of JSON, or of the type that the operation takes
	owner int    // for an owner, and for this machine's token
	// own is for a guest and a member about what is theirs, and foreign about what is somebody else's; 0 for operations of owners.
	own, foreign int
}{
	"get-openapi":          {owner: 200, own: 200},
	"get-me":               {owner: 200, own: 200},
	"sign-in":              {body: `{"code":"wrong"}`, owner: 404, own: 404},
	"list-sign-ins":        {owner: 200, own: 200},
	"end-sign-in":          {path: "/sign-ins/{logout}", owner: 204, own: 204, foreign: 404},
	"get-status":           {owner: 200},
	"list-conversations":   {owner: 200, own: 200},
	"get-conversation":     {path: "/conversations/{talk}", owner: 200, own: 200, foreign: 404},
	"list-entries":         {path: "/conversations/{talk}/entries", owner: 200, own: 200, foreign: 404},
	"send-message":         {path: "/conversations/{talk}/messages", body: `{"id":"NEW","text":"hello"}`, owner: 202, own: 202, foreign: 403},
	"stop-turn":            {path: "/conversations/{talk}/stop", owner: 204, own: 204, foreign: 404},
	"delete-conversation":  {path: "/conversations/{old}?stop=true", owner: 204, own: 204, foreign: 404},
	"search":               {path: "/search?q=SECRET", owner: 200, own: 200},
	"rename-conversation":  {path: "/conversations/{talk}", body: `{"title":"mine"}`, owner: 204, own: 204, foreign: 404},
	"fork-conversation":    {path: "/conversations/{talk}/forks", body: `{"entry":"none"}`, owner: 404, own: 404, foreign: 404},
	"plan-undo":            {path: "/conversations/{talk}/undo", owner: 200, own: 200, foreign: 403},
	"undo-files":           {path: "/conversations/{talk}/undo", body: `{"code":"none"}`, owner: 409, own: 409, foreign: 403},
	"export-conversation":  {path: "/conversations/{talk}/export", owner: 200, own: 200, foreign: 404},
	"watch-events":         {path: "/events?after=-2", owner: 422, own: 422}, // the stream itself does not end
	"upload-file":          {path: "/files?channel={frontend}&name=a.txt", body: "text", owner: 200, own: 200},
	"explain-turn":         {path: "/turns/{turn}", owner: 200, own: 200, foreign: 404},
	"explain-latest":       {path: "/turns/latest?channel={channel}&conversation={conversation}", owner: 200, own: 200, foreign: 404},
	"get-usage":            {path: "/usage?by=sender", owner: 200, own: 200},
	"list-held":            {owner: 200, own: 200},
	"list-approvals":       {owner: 200, own: 200},
	"decide-approval":      {path: "/approvals/{ask}/decision", body: `{"grant":false}`, owner: 204},
	"list-grants":          {owner: 200},
	"revoke-grant":         {path: "/grants/none", owner: 404},
	"list-audit":           {owner: 200},
	"reload":               {owner: 200},
	"restart":              {owner: 409}, // flynn serve alone restarts
	"halt":                 {body: `{}`, owner: 204},
	"resume":               {owner: 204},
	"list-logs":            {owner: 200},
	"list-repeats":         {owner: 200},
	"forget":               {body: `{"ids":[99999]}`, owner: 200},
	"list-people":          {owner: 200},
	"list-known":           {path: "/people/known?limit=2", owner: 200},
	"get-person":           {path: "/people/{person}", owner: 200, own: 200, foreign: 404},
	"export-person":        {path: "/people/{person}/export", owner: 200, own: 200, foreign: 404},
	"erase-person":         {path: "/people/tg:nobody/data", owner: 200},
	"block-person":         {path: "/people/tg:nobody/block", owner: 204},
	"unblock-person":       {path: "/people/tg:nobody/block", owner: 204},
	"decide-pairing":       {body: `{"code":"AAAA-AAAA","approve":true}`, owner: 404},
	"set-role":             {path: "/people/{me}", body: `{"role":"guest"}`, owner: 404},
	"revoke-pairing":       {path: "/people/tg:nobody", owner: 404},
	"list-plugins":         {owner: 200},
	"list-plugin-lines":    {path: "/plugins/none/logs", owner: 404},
	"get-plugin-login":     {path: "/plugins/none/login", owner: 404},
	"restart-plugin":       {path: "/plugins/none/restart", owner: 404},
	"roll-back-policy":     {path: "/policies/none/rollback", body: `{}`, owner: 404},
	"list-policies":        {owner: 200},
	"get-policy":           {path: "/policies/none", owner: 404},
	"get-policy-source":    {path: "/policies/none/source", owner: 404},
	"replay-policy":        {path: "/policies/none/replays", body: "no module", owner: 404},
	"put-policy":           {path: "/policies/none/module", body: "no module", owner: 404},
	"run-policy-cases":     {path: "/policies/none/cases", owner: 404},
	"list-shadow-reports":  {owner: 200},
	"list-policy-changes":  {owner: 200},
	"export-decisions":     {owner: 200},
	"list-containers":      {owner: 409},
	"list-sessions":        {owner: 200},
	"get-transcript":       {path: "/sessions/none/transcript", owner: 404},
	"export-session":       {path: "/sessions/none/export", owner: 404},
	"change-policy":        {path: "/policies/none", body: `{"shadow":true}`, owner: 404},
	"list-decisions":       {owner: 200},
	"get-decision":         {path: "/decisions/99999", owner: 404},
	"list-sandboxes":       {owner: 200},
	"list-sandbox-rules":   {owner: 200},
	"list-sandbox-files":   {path: "/sandboxes/none/files?path=/", owner: 404},
	"get-sandbox-file":     {path: "/sandboxes/none/file?path=/x", owner: 404},
	"list-egress":          {owner: 200},
	"get-cluster":          {owner: 200},
	"drain-host":           {path: "/cluster/hosts/none/drain", owner: 409}, // the store is not shared
	"undo-drain":           {path: "/cluster/hosts/none/drain", owner: 409},
	"remove-host":          {path: "/cluster/hosts/none", owner: 409},
	"accept-configuration": {owner: 409},
	"list-ports":           {owner: 200, own: 200},
	"list-previews":        {owner: 200, own: 200},
	"open-preview":         {body: `{"sandbox":"none","port":3000}`, owner: 404, own: 404, foreign: 404},
	"link-preview":         {path: "/previews/none/link", owner: 404, own: 404, foreign: 404},
	"close-preview":        {path: "/previews/none", owner: 404, own: 404, foreign: 404},
	"start-selftest":       {body: `{}`, owner: 409},
	"get-selftest":         {owner: 200},
	"list-turns":           {owner: 200},
	"dry-run":              {body: `{"agent":"main","channel":"web","conversation":"c","kind":"dm","sender":"owner","tool":"shell.exec","args":{"command":"ls"}}`, owner: 200},
	"list-schedules":       {owner: 200},
	"list-runs":            {path: "/schedules/none/runs", owner: 404},
	"run-schedule":         {path: "/schedules/none/runs", owner: 404},
	"add-schedule":         {body: `{"name":"x","text":"hi","as":"terminal:owner"}`, owner: 422},
	"change-schedule":      {path: "/schedules/none", body: `{"text":"x"}`, owner: 404},
	"remove-schedule":      {path: "/schedules/none", owner: 404},
	"preview-schedule":     {path: "/schedules/preview?timing=30m", owner: 200},
	"list-agents":          {owner: 200},
	"get-agent":            {path: "/agents/none", owner: 404},
	"get-routing":          {owner: 200},
	"try-route":            {body: `{"channel":"web","sender":"owner"}`, owner: 200},
	"list-models":          {owner: 200},
	"test-model":           {path: "/models/none/test", owner: 404},
	"list-notes":           {owner: 200},
	"mend-note":            {path: "/memory/notes/99999", body: `{"was":"","text":"x"}`, owner: 404},
	"get-budgets":          {owner: 200},
	"list-sender-budgets":  {owner: 200, own: 200},
	"get-usage-series":     {path: "/usage/series?by=sender", owner: 200, own: 200},
	"delete-session":       {path: "/sessions/none", owner: 404},
	"import-session":       {body: "{", owner: 400},

	"get-configuration":          {owner: 200},
	"list-configuration-keys":    {path: "/configuration/keys?section=sandbox", owner: 200},
	"check-configuration":        {body: `{"version":"0-0","text":""}`, owner: 409},
	"edit-configuration":         {body: `{"version":"0-0","text":""}`, owner: 409},
	"list-former-configurations": {owner: 200},
	"undo-configuration":         {body: `{"version":"0-0","former":"none"}`, owner: 409},
	"list-secrets":               {owner: 200},
	"set-secret":                 {path: "/secrets/.hidden", body: `{"value":"x"}`, owner: 400},
	"list-channels":              {owner: 200},
	"list-channel-kinds":         {owner: 200},
	"prove-channel":              {body: `{"plugin":"none"}`, owner: 422},
	"add-channel":                {body: `{"plugin":"none"}`, owner: 422},
	"change-channel":             {path: "/channels/none", body: `{"enabled":false}`, owner: 404},
	"remove-channel":             {path: "/channels/none", owner: 404},
	"list-installed-plugins":     {owner: 200},
	"get-installed-plugin":       {path: "/installed-plugins/none", owner: 404},
	"install-plugin":             {body: `{"from":"/none"}`, owner: 409},
	"upgrade-plugin":             {path: "/installed-plugins/none/upgrade", body: `{"from":"/none"}`, owner: 404},
	"rollback-plugin":            {path: "/installed-plugins/none/rollback", owner: 404},
	"verify-plugin":              {path: "/installed-plugins/none/verify", owner: 404},
	"enable-plugin":              {path: "/installed-plugins/none", body: `{"enabled":true}`, owner: 404},
	"remove-plugin":              {path: "/installed-plugins/none", owner: 404},
	"mend":                       {path: "/doctor/none/mend", owner: 404},
	"examine":                    {owner: 200},
}

// callers are the people of TestCallers: ann is a member, bob a guest, zoe an owner, and the holder of the token is nobody of them.
type callers struct {
	t    *testing.T
	h    *Host
	base string
}

// person is one of them with what is his.
type person struct {
	name, token, role string
	ids               *strings.Replacer
	secret            string // in his conversations only
	conversation      string
}

func (c callers) ask(token, origin, method, path, kind, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", kind)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(resp.Body, 8<<20)); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, text.String()
}

// answer asks and decodes what must come.
func (c callers) answer(token, method, path, body string, into any) {
	c.t.Helper()
	status, text := c.ask(token, "", method, rest.Prefix+path, "application/json", body)
	if status/100 != 2 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			c.t.Fatal(err)
		}
	}
}

// write accepts a message of a sender in his private chat and returns its inbox row.
func (c callers) write(name, text string) int64 {
	c.t.Helper()
	event := name + text + time.Now().String()
	err := c.h.inbox.Accept(c.t.Context(), message.Message{
		Channel: "tg", EventID: event, Text: text, Addressed: true, Sender: message.Sender{ID: name}, Conversation: message.Conversation{ID: name, Kind: message.DM},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	row, err := c.h.store.FindInbox(c.t.Context(), "tg", event)
	if err != nil {
		c.t.Fatal(err)
	}
	return row.ID
}

// link has a person write /console, and returns the code of the link that he gets.
func (c callers) link(name string) string {
	c.t.Helper()
	row, code := c.write(name, "/console"), ""
	eventually(c.t, "the link to the console of "+name, func() bool {
		rows, err := c.h.store.Replies(c.t.Context(), mailbox.CommandTurn(row))
		if err != nil || len(rows) == 0 {
			return false
		}
		if _, after, ok := strings.Cut(rows[0].Reply.Text, "/#sign-in="); ok {
			code, _, _ = strings.Cut(after, "\n")
		}
		return true
	})
	return code
}

// signIn signs a person in by his link.
func (c callers) signIn(name string) gateway.SignedIn {
	c.t.Helper()
	var in gateway.SignedIn
	c.answer("", http.MethodPost, "/sign-in", `{"code":"`+c.link(name)+`"}`, &in)
	if in.Sender != message.SenderKey("tg:"+name) || in.Token == "" {
		c.t.Fatalf("%s is signed in as %+v", name, in)
	}
	return in
}

// say says something in a conversation and waits for the answer. It returns the turn.
func (c callers) say(token, channel, conversation, id, text string) (turn string) {
	c.t.Helper()
	path := "/conversations/" + channel + "/" + url.PathEscape(conversation)
	c.answer(token, http.MethodPost, path+"/messages", `{"id":"`+id+`","text":"`+text+`"}`, nil)
	eventually(c.t, "an answer to "+id, func() bool {
		var page gateway.Page[gateway.Entry]
		c.answer(token, http.MethodGet, path+"/entries", "", &page)
		list := page.Items
		if n := len(list); n == 0 || !list[n-1].Final() {
			return false
		}
		turn = list[len(list)-1].Turn
		return true
	})
	return turn
}

// arrive signs a person in, or takes the token of the machine, and has him say something.
func (c callers) arrive(name, token string) person {
	c.t.Helper()
	p := person{name: name, token: token, secret: "SECRET-OF-" + name}
	logout, prefix := "none", ""
	if token == "" {
		logout = c.me(c.signIn(name).Token).SignIn
		p.token = c.signIn(name).Token
	}
	me := c.me(p.token)
	p.role, prefix = me.Role, me.Prefix
	p.conversation = prefix + "talk"
	turn := c.say(p.token, me.Channel, p.conversation, name+"-1", p.secret)
	c.say(p.token, me.Channel, prefix+"old", name+"-2", "to be deleted")
	a, err := c.h.approvals.Request(c.t.Context(), approval.Ask{
		Binding: approval.Binding{Tool: "shell.exec", Args: []byte(`{"command":"echo ` + p.secret + `"}`), Agent: "main", Where: "host", Sandbox: "host", Policy: "p"},
		Turn:    turn, Session: message.SessionKey(me.Channel + ":" + p.conversation + ":main"), Requester: me.Sender,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	in, somebody := "/conversations/"+me.Channel+"/", me.Sender
	if me.SignIn == "" {
		somebody = "tg:zoe" // the token is no person of a channel
	}
	p.ids = strings.NewReplacer("/conversations/{talk}", in+url.PathEscape(p.conversation), "/conversations/{old}", in+url.PathEscape(prefix+"old"),
		"{turn}", turn, "{logout}", logout, "{ask}", a.ID, "{me}", url.PathEscape(string(me.Sender)), "{person}", url.PathEscape(string(somebody)), "{frontend}", me.Channel, "{channel}", me.Channel,
		"{conversation}", url.QueryEscape(p.conversation))
	return p
}

func (c callers) me(token string) (me gateway.Me) {
	c.t.Helper()
	c.answer(token, http.MethodGet, "/me", "", &me)
	return me
}

func newCallers(t *testing.T, more ...string) callers {
	t.Helper()
	s := demoHost(t, `
[access]
owners = ["tg:zoe"]
members = ["tg:ann"]
rate_per_minute = 1000
conversation_rate_per_minute = 1000
[channels.tg]
plugin = "telegram"
trust_senders = true
access = "pair"
`+strings.Join(more, ""))
	c := callers{t, s.host, strings.TrimSuffix(s.host.gateway.URL(), "/#token="+s.token())}
	c.write("bob", "let me in")
	list, err := c.h.backend().Access.Access(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	if _, err := c.h.backend().Access.DecidePairing(t.Context(), list[0].Code, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	return c
}

// token returns the token of this machine.
func (s *cliHome) token() string {
	_, token, _ := strings.Cut(s.host.gateway.URL(), "#token=")
	return token
}

func kindOf(op rest.Operation) string {
	if op.Takes != "" {
		return op.Takes
	}
	return "application/json"
}

// TestCallers tries every operation of the API as each role, without a token, from a foreign page, and about what is somebody else's.
func TestCallers(t *testing.T) {
	c := newCallers(t)
	_, token, _ := strings.Cut(c.h.gateway.URL(), "#token=")
	bob, ann, zoe, holder := c.arrive("bob", ""), c.arrive("ann", ""), c.arrive("zoe", ""), c.arrive("holder", token)
	for _, p := range []struct {
		person
		role string
	}{{bob, route.Guest}, {ann, route.Member}, {zoe, route.Owner}, {holder, route.Owner}} {
		if p.person.role != p.role {
			t.Fatalf("%s is %s", p.name, p.person.role)
		}
	}
	ops := rest.New(c.h.backend(), "test", nil).Operations()
	known := map[string]bool{}
	for _, op := range ops {
		known[op.ID] = true
		row, ok := operations[op.ID]
		if !ok {
			t.Errorf("the table has no row for %s, which is for %ss", op.ID, op.Least)
			continue
		}
		t.Run(op.ID, func(t *testing.T) {
			c := c
			c.t = t
			path := rest.Prefix + op.Path
			if row.path != "" {
				path = rest.Prefix + row.path
			}
			try := func(by, of person, origin string, want int) {
				t.Helper()
				body := strings.ReplaceAll(row.body, "NEW", by.name+"-"+of.name+"-new")
				status, text := c.ask(by.token, origin, op.Method, of.ids.Replace(path), kindOf(op), body)
				if status != want && (want != http.StatusUnauthorized || status != http.StatusTooManyRequests) {
					t.Errorf("%q (%s) about %s's from %q: %d %.300s, want %d", by.name, by.role, of.name, origin, status, text, want)
				}
				for _, other := range []person{bob, ann, zoe, holder} {
					if by.role != route.Owner && other.name != by.name && strings.Contains(text, other.secret) {
						t.Errorf("%q (%s) sees what %s said: %s", by.name, by.role, other.name, text)
					}
				}
			}
			nobody := map[bool]int{true: row.own, false: http.StatusUnauthorized}[op.Least == ""]
			for _, of := range []person{bob, holder} {
				try(person{}, of, "", nobody)
				try(person{token: "wrong"}, of, "", nobody)
				for _, origin := range []string{"http://evil.example", "null", "http://127.0.0.1:1"} {
					try(of, of, origin, http.StatusForbidden)
				}
			}
			refused := http.StatusForbidden
			for _, by := range []person{bob, ann} {
				for _, of := range []person{bob, ann, zoe, holder} {
					switch {
					case row.own == 0:
						try(by, of, "", refused)
					case row.foreign != 0 && of.name != by.name:
						try(by, of, "", row.foreign)
					}
				}
				if row.own != 0 {
					try(by, by, "", row.own)
				}
			}
			try(zoe, zoe, "", row.owner)
			if op.ID == "end-sign-in" {
				return // the token of the machine has none
			}
			try(holder, holder, "", row.owner)
		})
	}
	for id := range operations {
		if !known[id] {
			t.Errorf("the table has a row for %s, which is no operation", id)
		}
	}
	t.Run("paths without roles", func(t *testing.T) { c.t = t; c.outside(bob, ann, zoe, holder) })
	t.Run("the socket", func(t *testing.T) { c.t = t; c.sockets(bob, ann, zoe, holder) })
}

// outside tries the paths beside the API, which are for the token of the machine and for clients.
func (c callers) outside(people ...person) {
	for _, path := range []string{"/metrics", "/v1/models", "/mcp"} {
		for _, p := range people {
			want := map[bool]int{true: http.StatusForbidden}[p.name != "holder"]
			status, text := c.ask(p.token, "", http.MethodGet, path, "", "")
			if want != 0 && status != want || want == 0 && (status == http.StatusForbidden || status == http.StatusUnauthorized) {
				c.t.Errorf("GET %s as %s (%s): %d %s", path, p.name, p.role, status, text)
			}
			if status, _ := c.ask(p.token, "http://evil.example", http.MethodGet, path, "", ""); status != http.StatusForbidden {
				c.t.Errorf("GET %s as %s from another page: %d", path, p.name, status)
			}
		}
		if status, _ := c.ask("", "", http.MethodGet, path, "", ""); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
			c.t.Errorf("GET %s without a token: %d", path, status)
		}
	}
}

// sockets tries to watch and to write to every conversation as everybody.
func (c callers) sockets(people ...person) {
	for _, by := range append(people, person{name: "nobody", token: "wrong"}) {
		for _, of := range people {
			channel := map[bool]string{true: gateway.ChannelWeb, false: gateway.ChannelConsole}[of.name == "holder"]
			got := c.hello(by.token, channel, of.conversation)
			want := gateway.CodeForbidden
			switch {
			case by.token == "wrong":
				want = gateway.CodeUnauthorized
				if got.Code == gateway.CodeLimited {
					want = gateway.CodeLimited
				}
			case by.role == route.Owner, by.name == of.name:
				want = ""
			}
			writes := want == "" && by.name == of.name
			if got.Code != want || got.Write != writes || (want == "") != (got.Type == gateway.TypeWelcome) {
				c.t.Errorf("%s (%s) watches %s's: %+v, want the error %q and to write %v", by.name, by.role, of.name, got, want, writes)
			}
		}
	}
	terminal := strings.ReplaceAll(gateway.TerminalPath, "{id}", "none")
	for path, protocol := range map[string]string{gateway.SocketPath: gateway.Subprotocol, terminal: gateway.TerminalProtocol} {
		if _, resp, err := websocket.Dial(c.t.Context(), c.base+path, &websocket.DialOptions{
			Subprotocols: []string{protocol}, HTTPHeader: http.Header{"Origin": {"http://evil.example"}},
		}); err == nil || resp.StatusCode != http.StatusForbidden {
			c.t.Errorf("a socket %s from another page: %v", path, err)
		}
	}
	for _, by := range append(people, person{name: "nobody", token: "wrong"}) {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
		conn, _, err := websocket.Dial(ctx, c.base+terminal, &websocket.DialOptions{Subprotocols: []string{gateway.TerminalProtocol}})
		if err != nil {
			c.t.Fatal(err)
		}
		if err := conn.Write(ctx, websocket.MessageText, []byte(`{"type":"hello","token":"`+by.token+`","rows":24,"cols":80}`)); err != nil {
			c.t.Fatal(err)
		}
		got := c.frame(ctx, conn).Code
		want := map[bool]string{true: gateway.CodeNotFound, false: gateway.CodeForbidden}[by.role == route.Owner]
		if by.token == "wrong" && (got == gateway.CodeUnauthorized || got == gateway.CodeLimited) {
			want = got
		}
		if got != want && (by.role != route.Owner || got != gateway.CodeUnavailable) { // there is no sandbox of the name, or no engine
			c.t.Errorf("%s (%s) opens a terminal: %q, want %q", by.name, by.role, got, want)
		}
		conn.CloseNow()
		cancel()
	}
}

// hello opens a socket and returns the first frame.
func (c callers) hello(token, channel, conversation string) (f gateway.ServerFrame) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	conn := c.dial(ctx, token, channel, conversation)
	defer conn.CloseNow()
	return c.frame(ctx, conn)
}

func (c callers) dial(ctx context.Context, token, channel, conversation string) *websocket.Conn {
	c.t.Helper()
	conn, _, err := websocket.Dial(ctx, c.base+gateway.SocketPath, &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		c.t.Fatal(err)
	}
	hello, _ := json.Marshal(gateway.ClientFrame{Type: gateway.TypeHello, Token: token, Channel: channel, Conversation: conversation})
	if err := conn.Write(ctx, websocket.MessageText, hello); err != nil {
		c.t.Fatal(err)
	}
	return conn
}

func (c callers) frame(ctx context.Context, conn *websocket.Conn) (f gateway.ServerFrame) {
	c.t.Helper()
	_, data, err := conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }
