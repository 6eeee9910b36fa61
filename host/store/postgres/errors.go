package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of errors that are told apart, from appendix A of the manual.
const (
	codeFenced         = "FL001" // of our own function fence
	codeMoved          = "FL002"
	codeReadOnly       = "25006" // of a standby
	codeForeignKey     = "23503"
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeLockTimeout    = "55P03"
	codeNoDatabase     = "3D000"
	codeNoRights       = "42501"
	codeNoFunction     = "42883"
	codeNotSupported   = "0A000"
	codeNotReady       = "55000" // here: the server is still a standby
	codeTableExists    = "42P07"
	codeFunctionExists = "42723"
	codeWrongPassword  = "28P01"
	codeWrongLogin     = "28000"
	codeProtocol       = "08P01"
	codeIdleInTx       = "25P03"
	classConnection    = "08"
	classResources     = "53"
	classIntervention  = "57" // shutdown, crash, not ready yet
	codeQueryCancelled = "57014"
)

// codeOf returns the code of an error of the server, or "".
func codeOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// lost reports whether an error is of a connection that does not work, or of a server that does not.
func lost(err error) bool {
	switch code := codeOf(err); {
	case code == codeReadOnly, code == codeIdleInTx, code != codeQueryCancelled && strings.HasPrefix(code, classIntervention):
		return true
	case code != "":
		return strings.HasPrefix(code, classConnection) && code != codeProtocol
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, errNoConnection) || err != nil && err.Error() == "conn closed"
}

// errNoConnection is the error of a statement on a session that has none.
var errNoConnection = errors.New("there is no connection")

// passing reports whether a read may succeed later.
func passing(err error) bool {
	return lost(err) || strings.HasPrefix(codeOf(err), classResources)
}

// repeatable reports whether a transaction was rolled back for what other transactions did, so that it may succeed now. A text of a
// decision may have been pruned while another host used it, which its foreign key found.
func repeatable(err error) bool {
	switch codeOf(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout, codeForeignKey:
		return true
	}
	return false
}
