package mcpserver

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK's client runs a program in a real cell and gets verdict, output and files.
func TestRunCode(t *testing.T) {
	cs := local(t, server(t))
	got, r := callTool(t, cs, "run_code", obj{"language": "bash", "source": `read x; echo "got $x $1"; echo err >&2; echo '{"a":1}' >out.json; exit 3`,
		"stdin": "hello\n", "args": []string{"arg"}, "artifacts": []string{"*.json", "none"}})
	if got["verdict"] != "error" || got["exit_code"] != 3.0 || at(got, "untrusted", "stdout") != "got hello arg\n" || at(got, "untrusted", "stderr") != "err\n" || r.IsError {
		t.Fatalf("%v", got)
	}
	if got["sandbox"] != "require" || got["missing_layers"] != nil && strings.Contains(strings.Join(words2(got["missing_layers"]), " "), "seccomp") {
		t.Errorf("%v", got)
	}
	uri, _ := at(got, "untrusted", "artifacts", 0, "uri").(string)
	if at(got, "untrusted", "artifacts", 0, "name") != "out.json" || at(got, "untrusted", "artifacts", 0, "text") != "{\"a\":1}\n" || !strings.HasPrefix(uri, artifactPrefix) {
		t.Errorf("%v", got)
	}
	res, err := cs.ReadResource(minute(t), &mcp.ReadResourceParams{URI: uri})
	if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != "{\"a\":1}\n" || res.Contents[0].Meta[untrustedKey] != true {
		t.Errorf("%+v: %v", res, err)
	}
}

func words2(v any) []string {
	var out []string
	l, _ := v.([]any)
	for _, x := range l {
		s, _ := x.(string)
		out = append(out, s)
	}
	return out
}
