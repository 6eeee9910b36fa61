package sqlstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/storetest"
)

// BenchmarkTurn is the store's share of a text turn, with each database in one run. Postgres flushes to the disk as SQLite does; its own
// pgbench, which commits one row at a time, is beside it.
func BenchmarkTurn(b *testing.B) {
	var server *postgrestest.Server
	database := func(b *testing.B, url func(string) string) store.Store {
		s, err := postgres.Open(b.Context(), postgres.Address{URL: url(server.Database(b)), Name: "DB"})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name string
		open func(*testing.B) store.Store
	}{
		{"sqlite", func(b *testing.B) store.Store {
			s, err := sqlite.Open(b.Context(), b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			return s
		}},
		{"postgres", func(b *testing.B) store.Store { return database(b, server.URL) }},
		{"pooled", func(b *testing.B) store.Store { return database(b, server.Pooler(b)) }},
	} {
		if c.name != "sqlite" && server == nil {
			server = postgrestest.StartWith(b, postgrestest.Options{Durable: true})
		}
		for _, sessions := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/sessions=%d", c.name, sessions), func(b *testing.B) {
				s := c.open(b)
				defer s.Close()
				turns(b, s, sessions)
			})
		}
	}
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("pgbench/clients=%d", clients), func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(server.Bench(b, clients), "commits/s")
		})
	}
}

func turns(b *testing.B, s store.Store, sessions int) {
	var n atomic.Int64
	run := func() {
		if err := storetest.Turn(context.Background(), s, n.Add(1)); err != nil {
			b.Error(err)
		}
	}
	b.SetParallelism(sessions)
	b.ResetTimer()
	if sessions == 1 {
		for b.Loop() {
			run()
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				run()
			}
		})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}
