package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/onced/onced/idem"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Health checks of a node, for containers and scripts",
		Long: `Health checks of a node, for containers and scripts: exit code 0 when it is well,
3 when not. live asks whether the process runs: only a failure of this is a
reason to kill it. ready asks whether the node can serve: a node that lost its
quorum is alive and not ready, and killing it would make things worse.`,
		Example: "  onced check ready --endpoints http://127.0.0.1:4747\n  onced check live",
		Args:    cobra.ArbitraryArgs,
		RunE:    groupRun,
	}
	cmd.AddCommand(
		a.checkOneCommand("ready", "/readyz?verbose", "Can the node serve?"),
		a.checkOneCommand("live", "/healthz", "Does the process run?"),
	)
	return cmd
}

func (a *app) checkOneCommand(name, path, short string) *cobra.Command {
	var client apiClient
	cmd := &cobra.Command{
		Use:   name,
		Short: short + " Exit code 0 or 3",
		Long: short + ` Exit code 0 or 3. With several endpoints each of them must be
well: give the one of the node that is meant.`,
		Example: "  onced check " + name + " --endpoints http://127.0.0.1:4747\n  HEALTHCHECK CMD [\"onced\", \"check\", \"" + name + "\"]",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			endpoints, err := client.endpoints(a)
			if err != nil {
				return err
			}
			results := make([]checkResult, len(endpoints))
			bad := ""
			for i, e := range endpoints {
				results[i] = client.check(cmd.Context(), e, path)
				if !results[i].OK && bad == "" {
					bad = e + ": " + results[i].Detail
				}
			}
			if client.out.json {
				if err := a.printJSON(struct {
					Nodes []checkResult `json:"nodes"`
				}{results}); err != nil {
					return err
				}
			} else {
				a.printChecks(name, results)
			}
			if bad != "" {
				return &exitError{exitUnavailable, bad, ""}
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	client.addFlags(cmd)
	return cmd
}

// checkResult is how one node is.
type checkResult struct {
	Endpoint string       `json:"endpoint"`
	OK       bool         `json:"ok"`
	Detail   string       `json:"detail,omitempty"`
	Checks   []idem.Check `json:"checks,omitempty"`
}

// check asks one node once.
func (c *apiClient) check(ctx context.Context, endpoint, path string) checkResult {
	result := checkResult{Endpoint: endpoint}
	r, err := c.once(ctx, c.httpClient(0), "GET", endpoint+path, nil)
	if err != nil {
		result.Detail = fmt.Sprintf("no answer: %v", rootCause(err))
		return result
	}
	var body struct {
		Status string       `json:"status"`
		Reason string       `json:"reason"`
		Checks []idem.Check `json:"checks"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil || body.Status == "" {
		result.Detail = fmt.Sprintf("answered %d, and not as a node of onced does", r.status)
		return result
	}
	result.OK, result.Detail, result.Checks = r.status == http.StatusOK, body.Reason, body.Checks
	if !result.OK && result.Detail == "" {
		result.Detail = fmt.Sprintf("answered %d", r.status)
	}
	return result
}

func (a *app) printChecks(name string, results []checkResult) {
	for _, r := range results {
		state := name
		if !r.OK {
			state = "not " + name
		}
		lines := []string{r.Endpoint + "\t" + state}
		for _, c := range r.Checks {
			line := "  " + c.Name + "\tok"
			if !c.OK {
				line = "  " + c.Name + "\tNO: " + strings.TrimSpace(c.Detail)
			}
			lines = append(lines, line)
		}
		table(a.stdout, lines...)
	}
}
