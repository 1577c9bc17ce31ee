package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// GetNamespace gives the namespace of c's calls and its policy, as of now:
// ErrNamespaceNotFound if it was never made, ErrNamespaceRetired if it was
// deleted.
func (c *Client) GetNamespace(ctx context.Context) (*idem.Namespace, error) {
	r := &request{method: http.MethodGet, path: "/v1/namespaces/" + url.PathEscape(c.namespace)}
	ns := &idem.Namespace{}
	err := c.call(ctx, r, func(a *answer) error {
		*ns = idem.Namespace{}
		if err := json.Unmarshal(a.body, ns); err != nil || ns.Name != c.namespace {
			return &strange{fmt.Sprintf("the answer is not the namespace that was asked for (%v)", err)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ns, nil
}
