package httpapi

import (
	_ "embed"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

//go:embed openapi.yaml
var openAPISource []byte

// openAPIDocument gives openapi.yaml as JSON.
func openAPIDocument() ([]byte, error) {
	var doc any
	if err := yaml.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(doc, json.Deterministic(true))
}

// serveOpenAPI serves the description of this API, of what is built and no
// more.
func (c *call) serveOpenAPI() *reply {
	doc, err := c.srv.openAPI()
	if err != nil {
		return c.refuse(c.fault("%v", err))
	}
	return &reply{status: http.StatusOK, outcome: "ok", body: jsontext.Value(doc)}
}
