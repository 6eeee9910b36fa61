package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

// maxWords bounds what is quoted of the API server and the kubelet, in bytes.
const maxWords = 600

// words is text of others on one line.
func words(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return cut.Head(strings.Join(strings.Fields(text), " "), maxWords)
}

// explain makes an error of the API server one for people, with the next step.
func (d *driver) explain(doing string, err error) error {
	status := apierrors.APIStatus(nil)
	said := ""
	if err != nil {
		said = words(err.Error())
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "would exceed context deadline"): // the limiter of calls does not wait for what would come too late
		return fmt.Errorf("%s: %w", doing, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case !errors.As(err, &status), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err):
		return fmt.Errorf("%w: the API server at %s: %s: %s", sandbox.ErrUnavailable, d.address, doing, said)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept the credentials: renew those of the kubeconfig", doing, d.address)
	case apierrors.IsForbidden(err) && strings.Contains(said, " cannot "):
		return fmt.Errorf("%s: %s: grant it, as the Role in role.yaml of the plugin does", doing, said)
	case apierrors.IsNotFound(err) && strings.Contains(said, `namespaces "`):
		return fmt.Errorf("%s: %s: create it with role.yaml of the plugin, or change namespace in the [drivers] table", doing, said)
	}
	return fmt.Errorf("%s: %s", doing, said)
}
