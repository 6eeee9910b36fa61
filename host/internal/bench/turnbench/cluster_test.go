package turnbench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// BenchmarkCluster measures turns of one, two and four hosts on one Postgres that flushes to the disk, over a channel that all of them have.
// Beside them, on the same server, are a queue that does the three commits of a turn and nothing else, and the server's own pgbench, which
// commits one row at a time. Hosts and database share the processors here: what each of them uses for a turn says more than the rate.
func BenchmarkCluster(b *testing.B) {
	bin := build(b)
	server := postgrestest.StartWith(b, postgrestest.Options{Durable: true})
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			database := server.Database(b)
			var hosts []hosttest.Config
			for i := range n {
				hosts = append(hosts, hosttest.Config{Shared: true, Database: server.URL(database), More: fmt.Sprintf("[cluster]\nhost = \"h%d\"\n", i)})
			}
			f := newFloor(b, bin, hosts[0], hosts[1:]...)
			measured(b, server, database, func() time.Duration {
				used := cpuTime(f.program.PID())
				for _, p := range f.others {
					used += cpuTime(p.PID())
				}
				return used
			}, func() { f.turns(b, clusterSessions, text) })
		})
	}
	b.Run("queue", func(b *testing.B) {
		database := server.Database(b)
		server.Exec(b, database, queueTables)
		measured(b, server, database, nil, func() { queueTurns(b, server.URL(database)) })
	})
	b.Run("pgbench", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(server.Bench(b, clusterSessions), "commits/s")
	})
}

// clusterSessions talk at the same time.
const clusterSessions = 32

// measured reports what the database, and the hosts if there are any, use for each of the b.N turns that are run.
func measured(b *testing.B, server *postgrestest.Server, database string, hosts func() time.Duration, run func()) {
	conn, err := pgx.Connect(b.Context(), server.URL(database))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	state := func() (commits, wal float64) {
		err := conn.QueryRow(b.Context(), "SELECT pg_stat_clear_snapshot()::text, xact_commit, pg_current_wal_lsn() - '0/0'::pg_lsn FROM pg_stat_database WHERE datname = $1", database).Scan(nil, &commits, &wal)
		if err != nil {
			b.Fatal(err)
		}
		return commits, wal
	}
	commits, wal := state()
	serverUsed, hostsUsed := server.CPU(), time.Duration(0)
	if hosts != nil {
		hostsUsed = hosts()
	}
	run()
	serverUsed = server.CPU() - serverUsed
	if hosts != nil {
		b.ReportMetric(millis(hosts()-hostsUsed)/float64(b.N), "host-cpu-ms/turn")
	}
	// Each backend reports what it has done within a second, and when it has been idle.
	<-time.After(1500 * time.Millisecond)
	c, w := state()
	b.ReportMetric((c-commits)/float64(b.N), "commits/turn")
	b.ReportMetric((w-wal)/float64(b.N), "wal-B/turn")
	b.ReportMetric(millis(serverUsed)/float64(b.N), "postgres-cpu-ms/turn")
}

const queueTables = `
CREATE TABLE jobs (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, conversation TEXT NOT NULL, text TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'new');
CREATE INDEX jobs_new ON jobs (id) WHERE state = 'new';
CREATE TABLE steps (job BIGINT NOT NULL, seq INT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (job, seq));
CREATE TABLE answers (job BIGINT PRIMARY KEY, text TEXT NOT NULL, sent BOOLEAN NOT NULL DEFAULT false);
`

// queueTurns has b.N jobs pass through a queue: a job is added, claimed with its first step, and answered.
func queueTurns(b *testing.B, url string) {
	var left atomic.Int64
	left.Store(int64(b.N))
	text := strconv.Quote(fmt.Sprintf("%0200d", 0))
	b.ResetTimer()
	var workers sync.WaitGroup
	for range clusterSessions {
		workers.Go(func() {
			ctx := context.Background()
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close(ctx)
			for left.Add(-1) >= 0 {
				if err := queueTurn(ctx, conn, text); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}

func queueTurn(ctx context.Context, conn *pgx.Conn, text string) error {
	if _, err := conn.Exec(ctx, "INSERT INTO jobs (conversation, text) VALUES ('c', $1)", text); err != nil {
		return err
	}
	var job int64
	for job == 0 { // a worker may find only jobs that others have claimed since its statement began
		err := conn.QueryRow(ctx, `WITH claimed AS (
			UPDATE jobs SET state = 'running' WHERE id = (SELECT id FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id
		) INSERT INTO steps (job, seq, text) SELECT id, 1, $1 FROM claimed RETURNING job`, text).Scan(&job)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	_, err := conn.Exec(ctx, `WITH answer AS (INSERT INTO answers (job, text) VALUES ($1, $2)) UPDATE jobs SET state = 'done' WHERE id = $1`, job, text)
	return err
}
