package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/counted"
)

// The valid lines of a file with broken lines are shown, and nothing else of it.
func TestBrokenLines(t *testing.T) {
	folder := t.TempDir()
	run := filepath.Join(folder, "run")
	makeRun(t, run, 0)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o600))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("root:x:0\n"), 0o600))
	var get func(path string) (*http.Response, string)
	const good = `{"step":1,"epoch":0,"loss":3}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", ""},
		"cut":                 {good + `{"step":2,"lo` + "\n" + `{"step":3,"loss":1}` + "\n" + `{"step":4`, good + "null\n" + `{"step":3,"epoch":0,"loss":1}` + "\n"},
		"other JSON":          {"null\n[]\n7\n\"a\"\n{}\n\n" + good, strings.Repeat("null\n", 6) + good},
		"other types":         {`{"step":"2","loss":1}` + "\n" + `{"step":2,"loss":"<b>"}` + "\n" + `{"step":2,"loss":1e999}` + "\n" + good, strings.Repeat("null\n", 3) + good},
		"no step":             {`{"step":-2,"loss":1}` + "\n" + good, "null\n" + good},
		"bytes":               {"\x00\xff\n" + good, "null\n" + good},
		"longer than a chunk": {good + strings.Repeat("x", 2*chunk+9) + "\n" + `{"step":2,"loss":1}` + "\n", good + strings.Repeat("null\n", 3) + `{"step":2,"epoch":0,"loss":1}` + "\n"},
		"no newline in it":    {good + strings.Repeat("x", 2*chunk+9), good + strings.Repeat("null\n", 2)},
	} {
		require.NoError(t, os.RemoveAll(filepath.Join(run, "metrics.jsonl")))
		write("metrics.jsonl", c.text)
		_, get = serve(t, DefaultAddress, folder)
		got, version, from := "", "", "0"
		for {
			r, text := get("/metrics.jsonl?name=run&version=" + version + "&from=" + from)
			got += text
			if r.Header.Get("Metrics-Next") == from {
				break
			}
			version, from = r.Header.Get("Metrics-Version"), r.Header.Get("Metrics-Next")
		}
		require.Equal(t, c.want, got, name)
		rows, faults := list(t, get)
		if n := strings.Count(c.want, "null"); n > 0 {
			require.Equal(t, []string{fmt.Sprintf("%s: %s cannot be read", filepath.Join(run, "metrics.jsonl"), counted.Of(n, "line"))}, faults, name)
		} else {
			require.Empty(t, faults, name)
		}
		require.Equal(t, strings.Contains(c.want, "loss"), rows[0].Loss != nil, name)
	}

	write("samples.jsonl", `{"step":0,"prompt":"p","text":"t"}`+"\n{\n"+`{"step":1,"prompt":7}`+"\n"+`{"step":2,"prompt":"p","text":"<b>"}`)
	_, text := get("/samples.jsonl?name=run")
	require.Equal(t, `{"step":0,"prompt":"p","text":"t"}`+"\n"+`{"step":2,"prompt":"p","text":"\u003cb\u003e"}`+"\n", text)

	write("manifest.json", fmt.Sprintf(`{"metrics": %q}`, secret))
	_, text = get("/metrics.jsonl?name=run")
	require.Equal(t, "null\n", text, "a file that is no history is not shown")
}

// Invalid folders that look like a run are reported; the other runs are shown.
func TestOddFolders(t *testing.T) {
	folder := t.TempDir()
	_, get := serve(t, DefaultAddress, folder)
	rows, faults := list(t, get)
	require.Empty(t, rows)
	require.Empty(t, faults)

	makeRun(t, filepath.Join(folder, "good"), 2)
	for name, manifest := range map[string]string{"half": `{"program": "p", "st`, "empty": "", "list": "[]"} {
		makeRun(t, filepath.Join(folder, name), 2)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name, "manifest.json"), []byte(manifest), 0o600))
	}
	makeRun(t, filepath.Join(folder, "config"), 2)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config", "config.yaml"), []byte("a: [\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "nothing", "below"), 0o700))
	names := []string{"good", "with\nlines", "with #?&%20 +", "<script>", "-", "日本語"}
	if runtime.GOOS == "linux" { // names may be any bytes
		names = append(names, "not\xffUTF-8")
	}
	for _, name := range names[1:] {
		makeRun(t, filepath.Join(folder, name), 3)
	}
	rows, faults = list(t, get)
	require.Len(t, faults, 4)
	for _, name := range []string{"half", "empty", "list", "config"} {
		require.Contains(t, strings.Join(faults, "\n"), filepath.Join(folder, name)+string(filepath.Separator))
	}
	require.Len(t, rows, len(names))
	for _, r := range rows {
		require.NotZero(t, r.Step, r.Name)
		for _, file := range []string{"metrics.jsonl", "run.json", "samples.jsonl"} {
			answer, _ := get("/" + file + "?name=" + url.QueryEscape(r.Name))
			require.Equal(t, 200, answer.StatusCode, "%s of %q", file, r.Name)
		}
	}
	require.NoError(t, os.RemoveAll(folder))
	rows, faults = list(t, get)
	require.Empty(t, rows)
	require.Len(t, faults, 1)
}
