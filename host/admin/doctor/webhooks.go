package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/flynnhost/flynn/host/plugin/service"
)

// checkWebhooks asks for a path of the public address that nobody has registered, and looks whether flynn's listener for webhooks refuses it.
func checkWebhooks(ctx context.Context, x *exam) {
	g := x.Config.Gateway
	if g.PublicURL == "" {
		return
	}
	if x.Running == nil {
		x.unexamined("the public address of webhooks, because nothing answers there while no flynn runs")
		return
	}
	if why := unreached(ctx, g.PublicURL); why != "" {
		x.at(Finding{
			Code: WebhookUnreachable, What: g.PublicURL + " does not lead to this flynn: " + why,
			Mend:    "point the proxy or tunnel behind that address at http://" + g.HooksListen + ", then see",
			Command: "curl -i " + strings.TrimRight(g.PublicURL, "/") + "/hooks/x",
		}, "gateway", "public_url")
	}
}

// unreached is why an address does not lead to a listener for webhooks, or "".
func unreached(ctx context.Context, address string) string {
	at, err := url.JoinPath(address, service.HookPath("doctor", rand.Text()))
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, modelDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err.Error()
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return err.Error()
	}
	defer resp.Body.Close()
	if !service.Refused(resp) {
		return fmt.Sprintf("the answer there is %s, and not flynn's", resp.Status)
	}
	return ""
}
