package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Address says where a database is.
type Address struct {
	URL  string // a connection string; it contains a password, and is in no error
	Name string // of the variable that holds it, for errors
}

// database is a database to connect to.
type database struct {
	Address
	pool *pgxpool.Config
	// pooled is true if a pooler such as pgbouncer is in between, which may give each transaction another connection: there are no
	// prepared statements then, no settings of a session, and no locks of one.
	pooled   bool
	patience time.Duration // with a server that is away; tests change it
}

const (
	// patience is how long a write is repeated while the server is away.
	patience       = 30 * time.Second
	connectTimeout = 5 * time.Second
	// lockTimeout is longer than idleTimeout, after which the server ends the transaction of a host that was paused within it.
	lockTimeout = "15s"
	idleTimeout = "5s"
)

// connectedSettings are those of a connection of our own. The server ends it, and with it the locks of the host, 11 seconds after the
// host's machine is gone.
var connectedSettings = map[string]string{
	"lock_timeout": lockTimeout, "idle_in_transaction_session_timeout": idleTimeout,
	"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
}

// newDatabase parses an address, and finds out whether there is a pooler.
func newDatabase(ctx context.Context, a Address) (*database, error) {
	if strings.TrimSpace(a.URL) == "" {
		return nil, fmt.Errorf("the variable %s, which [store] url_env names, is not set: set it to postgres://USER:PASSWORD@HOST/DATABASE", a.Name)
	}
	pool, err := pgxpool.ParseConfig(a.URL)
	if err != nil { // the error quotes the string
		return nil, fmt.Errorf("the variable %s, which [store] url_env names, holds no connection string of Postgres: set it to postgres://USER:PASSWORD@HOST/DATABASE", a.Name)
	}
	c := pool.ConnConfig
	c.ConnectTimeout = connectTimeout
	c.DialFunc = dialer().DialContext
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "flynn"
	}
	db := &database{Address: a, pool: pool, patience: patience}
	if c.DefaultQueryExecMode == pgx.QueryExecModeExec || c.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		db.expectPooler()
	} else {
		for name, value := range connectedSettings {
			c.RuntimeParams[name] = value
		}
	}
	if err := db.probe(ctx); err != nil {
		return nil, db.explain(err)
	}
	return db, nil
}

func (db *database) expectPooler() {
	db.pooled = true
	c := db.pool.ConnConfig
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	for name := range connectedSettings {
		delete(c.RuntimeParams, name)
	}
}

// probe connects once. A pooler refuses settings that it does not know, and hides the process that serves a connection.
func (db *database) probe(ctx context.Context) error {
	conn, err := db.connect(ctx)
	if err != nil && !db.pooled && codeOf(err) == codeProtocol && strings.Contains(err.Error(), "startup parameter") {
		db.expectPooler()
		conn, err = db.connect(ctx)
	}
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var pid uint32
	var encoding string
	var standby bool
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid(), current_setting('server_encoding'), pg_is_in_recovery()").Scan(&pid, &encoding, &standby)
	switch {
	case err != nil:
		return err
	case standby:
		return errStandby
	case encoding != "UTF8":
		return fmt.Errorf("its encoding is %s: make one with: CREATE DATABASE flynn ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	if !db.pooled && pid != conn.PgConn().PID() {
		db.expectPooler()
	}
	return nil
}

func (db *database) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, db.pool.ConnConfig.Copy())
}

// connections opens connections for parallel reads.
func (db *database) connections(ctx context.Context) (*pgxpool.Pool, error) {
	c := db.pool.Copy()
	if !db.pooled {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	c.MaxConnIdleTime = time.Minute
	return pgxpool.NewWithConfig(ctx, c)
}

var errStandby = errors.New("it is a standby, which only reads")

// explain says what is wrong with a database, and what to do.
func (db *database) explain(err error) error {
	c := db.pool.ConnConfig
	at := c.Host
	if !strings.HasPrefix(at, "/") {
		at = net.JoinHostPort(at, fmt.Sprint(c.Port))
	}
	next := ""
	switch code := codeOf(err); {
	case errors.Is(err, errStandby), code == codeReadOnly:
		err = errStandby
		next = ": let " + db.Name + " lead to the primary, or name all servers in it and add target_session_attrs=read-write"
	case code == codeWrongPassword, code == codeWrongLogin:
		next = ": check the user and the password in " + db.Name
	case code == codeNoDatabase:
		next = ": make it with: CREATE DATABASE " + c.Database + " ENCODING 'UTF8' TEMPLATE template0"
	case code == codeNoRights:
		next = ": make its user the owner: ALTER DATABASE " + c.Database + " OWNER TO " + c.User
	case code == codeTableExists, code == codeFunctionExists:
		next = ": it has tables of another program; give flynn a database of its own"
	case code == codeLockTimeout:
		next = ": another flynn is changing its schema; try again when that is done"
	case code == "" && lost(err):
		next = ": start the server, or correct " + db.Name
	}
	return fmt.Errorf("database %s at %s: %w%s", c.Database, at, bare(err), next)
}

// bare returns the cause of an error of pgx, whose text repeats where it happened.
func bare(err error) error {
	var connect interface{ Unwrap() error }
	for errors.As(err, &connect) && strings.Contains(err.Error(), "failed to connect to `") {
		inner := connect.Unwrap()
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// dialer returns a dialer whose connections end when the server's machine is gone.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         control,
	}
}
