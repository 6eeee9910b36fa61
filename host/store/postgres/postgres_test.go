package postgres

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/storetest"
	"github.com/flynnhost/flynn/sdk/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main{M: m}) }

func TestConformance(t *testing.T) {
	server := postgrestest.Shared(t)
	for _, c := range []struct {
		name string
		url  func(string) string
	}{{"direct", server.URL}, {"pooled", server.Pooler(t)}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "pooled" {
				need.Long(t)
			}
			at := func(database string) Address { return Address{c.url(database), "FLYNN_STORE"} }
			template := server.Database(t)
			made, err := Open(t.Context(), Address{server.URL(template), "FLYNN_STORE"})
			if err != nil {
				t.Fatal(err)
			}
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(t.Context(), at(server.Database(t))); err != nil || s.db.pooled != (c.name == "pooled") {
				t.Fatalf("the pooler was not noticed, or one that is not there: %v", err)
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			storetest.Run(t, func(t *testing.T) storetest.Opener {
				name := server.Copy(t, template)
				var last *Store
				t.Cleanup(func() { last.Close() })
				return func() store.Store {
					if last != nil {
						if err := last.Close(); err != nil {
							t.Fatal(err)
						}
					}
					s, err := Open(t.Context(), at(name))
					if err != nil {
						t.Fatal(err)
					}
					last = s
					return s
				}
			}, func(t *testing.T, cl storetest.Cleaner) storetest.Joiner {
				name := server.Copy(t, template)
				return func(host string) store.Store {
					s, err := open(context.Background(), at(name), &session{host: host})
					if err != nil {
						t.Fatal(err)
					}
					cl.Cleanup(func() { s.Close() })
					return s
				}
			})
		})
	}
}
