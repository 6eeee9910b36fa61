package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// TestClusterCrashBot kills, again and again, the host that has a bot of Telegram, which one host at a time may poll. The other answers what
// the killed one had taken over, and at once; it polls only when the lease of the killed one is over. Telegram recognises no repetition, so an
// answer may come twice if the second is marked.
func TestClusterCrashBot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	x := newBots(t)
	x.run(func() {
		for range *clusterKills {
			x.crash()
		}
	})
	x.report()
	p50, most := quantiles(x.resumed)
	_, shown := quantiles(x.shown)
	next, latest := quantiles(x.next)
	t.Logf("%d kills; of what the killed host had, %d messages are answered after p50 %s, max %s, and %d long answers are there after at most %s; what was written then is answered after p50 %s, max %s; seed %d",
		*clusterKills, len(x.resumed), p50, most, len(x.shown), shown, next, latest, x.seed)
	if len(x.resumed) == 0 {
		t.Error("no kill met any work: nothing was tested")
	}
	if *clusterKills >= long && (max(most, shown) > mostTakeover || p50 > owedTakeover) {
		t.Errorf("answered after p50 %s, max %s; owed are %s and %s", p50, max(most, shown), owedTakeover, mostTakeover)
	}
}

// bots is two hosts on one database with one bot, under way.
type bots struct {
	*cluster
	bot *telegramtest.Server

	mu    sync.Mutex
	chats []*telegramtest.Chat
	last  []int           // by chat: the number of its latest message, from 1
	long  map[[2]int]bool // by chat and number: the model takes some time to answer it

	// Times since a kill.
	resumed []time.Duration // of answers to what the killed host had taken over
	shown   []time.Duration // the same, with what the model takes to write a long one
	next    []time.Duration // of the first answer to what was written after these
}

// botToken is the variable with the token of the bot.
const botToken = "FLYNN_TEST_BOT"

func newBots(t *testing.T) *bots {
	server := postgrestest.Start(t)
	bin, dir := hosttest.Build(t), t.TempDir()
	hosttest.BuildPlugin(t, "plugins/telegram", dir)
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, err := os.ReadFile(filepath.Join("../../../../plugins/telegram", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	x := &bots{cluster: &cluster{t: t, seed: *seed, database: server.URL(server.Database(t))}, bot: telegramtest.Start(t), long: map[[2]int]bool{}}
	if x.seed == 0 {
		x.seed = uint64(time.Now().UnixNano())
	}
	x.rng = rand.New(rand.NewPCG(x.seed, 0))
	for _, name := range []string{"a", "b"} {
		x.hosts = append(x.hosts, hosttest.New(t, hosttest.Config{
			Bin: bin, Database: x.database, Env: []string{botToken + "=" + telegramtest.Token},
			More: fmt.Sprintf("[cluster]\nhost = %q\n[channels.telegram]\nplugin = \"telegram\"\ntoken_env = %q\napi_url = %q\n[plugins.dev_paths]\ntelegram = %q\n", name, botToken, x.bot.URL, dir),
		}))
	}
	for i := range *conversations {
		x.chats = append(x.chats, x.bot.Private(fmt.Sprint("person ", i)))
		x.last = append(x.last, 0)
	}
	return x
}

// run lets people talk during something, waits until all is answered, and stops the hosts in order.
func (x *bots) run(during func()) {
	for i := range x.hosts {
		x.start(i)
	}
	talking, hush := context.WithCancel(x.t.Context())
	var people sync.WaitGroup
	for i := range x.chats {
		rng := rand.New(rand.NewPCG(x.seed, uint64(i)+1))
		people.Go(func() { x.talks(talking, i, rng) })
	}
	during()
	hush()
	people.Wait()
	for i := range x.chats {
		x.until("the last message has an answer", func() bool { return x.answered(i, x.number(i)) })
	}
	for _, p := range x.hosts {
		if err := p.Stop(); err != nil {
			x.t.Error(err)
		}
	}
}

// talks has a person write a message after each answer. Some answers take long, and some are shown while they are written.
func (x *bots) talks(ctx context.Context, i int, rng *rand.Rand) {
	for n := 1; ctx.Err() == nil; n++ {
		text := mark(n)
		switch k := rng.IntN(8); {
		case k == 0:
			text = fmt.Sprintf("!stream 50 %s%s", strings.Repeat("and so on ", 10), text)
		case k < 7:
			text = fmt.Sprintf("!slow 30 %s", text)
		}
		x.mu.Lock()
		x.last[i], x.long[[2]int{i, n}] = n, strings.HasPrefix(text, "!stream")
		x.mu.Unlock()
		x.chats[i].Say(text)
		for !x.answered(i, n) && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// mark is how a text carries the number of its message, at its end.
func mark(n int) string { return fmt.Sprintf("hello (%d)", n) }

func (x *bots) number(i int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last[i]
}

// answers counts the answers to a message of a chat, and those of them that are not marked as a possible repetition.
func (x *bots) answers(i, n int) (all, plain int) {
	for _, m := range x.chats[i].Messages() {
		if strings.HasSuffix(m.Text, mark(n)) {
			all++
			if !strings.HasPrefix(m.Text, "(possibly again)") {
				plain++
			}
		}
	}
	return all, plain
}

func (x *bots) answered(i, n int) bool {
	all, _ := x.answers(i, n)
	return all > 0
}

func (x *bots) until(what string, holds func() bool) {
	x.t.Helper()
	for late := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			x.fail(what + ": not within a minute")
		}
	}
}

// query returns the texts of one column.
func (x *bots) query(sql string) []string {
	conn, err := pgx.Connect(x.t.Context(), x.database)
	if err != nil {
		x.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(x.t.Context(), sql)
	if err != nil {
		x.t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		x.t.Fatal(err)
	}
	return texts
}

// atWork returns the host that has the bot, when everybody has had two more answers.
func (x *bots) atWork() int {
	for i := range x.chats {
		after := x.number(i) + 2
		x.until("an answer", func() bool { return x.number(i) >= after })
	}
	owner := x.query("SELECT host FROM owners WHERE key = 'channel telegram'")
	for host := range x.hosts {
		if slices.Equal(owner, []string{x.name(host)}) {
			return host
		}
	}
	x.fail(fmt.Sprintf("the bot is at %q", owner))
	return 0
}

// tooSoon is a time in which no other host can have answered, since it waits that long for what the killed one may have begun.
const tooSoon = 300 * time.Millisecond

// crash kills the host that has the bot while it has work, and notes when the other has answered what it had taken over, and what it had not.
func (x *bots) crash() {
	host := x.atWork()
	time.Sleep(time.Duration(x.rng.Int64N(int64(time.Second))))
	at := time.Now()
	if err := x.hosts[host].Kill(); err != nil {
		x.t.Fatalf("%v; its log ends with:\n%s", err, x.hosts[host].Tail())
	}
	stored := x.query("SELECT convert_from(message, 'UTF8') FROM inbox WHERE channel = 'telegram'")
	had := make([]int, len(x.chats)) // by chat: its last message, if that was taken over
	var asked sync.WaitGroup
	for i, chat := range x.chats {
		n, id := x.number(i), fmt.Sprintf("\"id\":\"%d\"", chat.ID)
		if !slices.ContainsFunc(stored, func(m string) bool { return strings.Contains(m, id) && strings.Contains(m, mark(n)+"\"") }) {
			continue
		}
		had[i] = n
		asked.Go(func() {
			took := x.took(at, func() bool { return x.answered(i, n) })
			x.mu.Lock()
			defer x.mu.Unlock()
			switch {
			case took < tooSoon: // it was on its way
			case x.long[[2]int{i, n}]:
				x.shown = append(x.shown, took)
			default:
				x.resumed = append(x.resumed, took)
			}
		})
	}
	asked.Wait()
	x.next = append(x.next, x.took(at, func() bool {
		for i, n := range had {
			if x.answered(i, n+1) {
				return true
			}
		}
		return false
	}))
	x.start(host)
}

// took returns how long after a time something holds.
func (x *bots) took(since time.Time, holds func() bool) time.Duration {
	for late := since.Add(time.Minute); !holds() && time.Now().Before(late); {
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(since)
}

// report checks that each message was answered, once or with a mark, and that there were never two pollers.
func (x *bots) report() {
	marked, messages := 0, 0
	for i := range x.chats {
		for n := 1; n <= x.number(i); n++ {
			messages++
			all, plain := x.answers(i, n)
			if all == 0 || plain > 1 {
				x.t.Errorf("message %d of chat %d has %d answers, %d of them without a mark", n, i, all, plain)
			}
			marked += all - plain
		}
	}
	if n := x.bot.Conflicts(); n != 0 {
		x.t.Errorf("two plugins polled at the same time %d times", n)
	}
	x.t.Logf("%d messages, %d answers with a mark", messages, marked)
}
