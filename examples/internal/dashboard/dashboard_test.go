package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// makeRun writes the folder of a run with some steps.
func makeRun(t *testing.T, path string, steps int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(path, 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(text), 0o600))
	}
	write("manifest.json", fmt.Sprintf(`{"program": "p", "ggml": "0.27", "steps": %d, "metrics": "metrics.jsonl", "adapter": "adapter.gguf"}`, 2*steps))
	write("config.yaml", "model-base: <b>model</b>.gguf\ntrain-data: [data.jsonl]\n")
	write("commands.txt", "2026-11-26T10:00:00Z  finetune\n")
	var lines strings.Builder
	for i := range steps {
		fmt.Fprintf(&lines, `{"step":%d,"epoch":0.1,"loss":%f,"learning_rate":0.001,"grad_norm":1,"tokens_per_second":100,"memory":1000000}`+"\n", i+1, 3-float64(i)/float64(steps))
	}
	write("metrics.jsonl", lines.String())
}

// serve starts a server, and returns it with a function that requests a path.
func serve(t *testing.T, address, folder string) (*Server, func(path string) (*http.Response, string)) {
	t.Helper()
	s := need.Value(Listen(address, folder))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	base := need.Value(url.Parse(s.URL()))(t)
	return s, func(path string) (*http.Response, string) {
		r := need.Value(http.Get("http://" + base.Host + path))(t)
		defer r.Body.Close()
		text := need.Value(io.ReadAll(r.Body))(t)
		return r, string(text)
	}
}

// list returns what a page lists: the runs, and the faults of folders that look like runs.
func list(t *testing.T, get func(path string) (*http.Response, string)) (rows []row, faults []string) {
	t.Helper()
	_, text := get("/runs.json")
	var answer struct {
		Runs   []row
		Faults []string
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
	require.NotNil(t, answer.Runs)
	require.NotNil(t, answer.Faults)
	return answer.Runs, answer.Faults
}

// The server serves the page, its parts, and the files of runs, but nothing outside the folder.
func TestDashboard(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "runs", "first"), 4)
	makeRun(t, filepath.Join(folder, "runs", "<img src=x onerror=alert(1)>"), 2)
	s, get := serve(t, DefaultAddress, filepath.Join(folder, "runs"))
	require.Regexp(t, `^dashboard: http://127\.0\.0\.1:\d+/$`, s.Describe())

	r, text := get("/")
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.Contains(t, r.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'")
	require.NotContains(t, text, "http")
	for _, path := range []string{"/app.js", "/style.css", "/uplot.js", "/uplot.css", "/uplot-LICENSE"} {
		r, _ := get(path)
		require.Equal(t, http.StatusOK, r.StatusCode, path)
	}

	rows, faults := list(t, get)
	require.Empty(t, faults)
	require.Len(t, rows, 2)
	require.Equal(t, "first", rows[1].Name)
	require.Equal(t, 4, rows[1].Step)
	require.Equal(t, 8, rows[1].Steps)
	_, text = get("/run.json?name=first")
	require.Contains(t, text, `"config":"model-base: \u003cb\u003emodel`)

	// Metrics come in chunks of whole lines; a file that replaces another is read from its
	// beginning.
	r, text = get("/metrics.jsonl?name=first")
	require.Equal(t, 4, strings.Count(text, "\n"))
	version, next := r.Header.Get("Metrics-Version"), r.Header.Get("Metrics-Next")
	metrics := filepath.Join(folder, "runs", "first", "metrics.jsonl")
	info := need.Value(os.Stat(metrics))(t)
	require.Equal(t, fmt.Sprint(info.Size()), next)
	file := need.Value(os.OpenFile(metrics, os.O_APPEND|os.O_WRONLY, 0))(t)
	_, err := file.WriteString("{\"step\":5,\"loss\":2}\n{\"step\":6,\"lo")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	r, text = get("/metrics.jsonl?name=first&version=" + version + "&from=" + next)
	require.Equal(t, "{\"step\":5,\"epoch\":0,\"loss\":2}\n", text)
	require.Equal(t, next, r.Header.Get("Metrics-From"))
	require.NoError(t, os.WriteFile(metrics+".new", []byte("{\"step\":1,\"loss\":9}\n"), 0o600))
	require.NoError(t, os.Rename(metrics+".new", metrics))
	r, text = get("/metrics.jsonl?name=first&version=" + version + "&from=3")
	require.Equal(t, "{\"step\":1,\"epoch\":0,\"loss\":9}\n", text)
	require.Equal(t, "0", r.Header.Get("Metrics-From"))
	require.NotEqual(t, version, r.Header.Get("Metrics-Version"))

	_, text = get("/samples.jsonl?name=first")
	require.Empty(t, text)
	for _, path := range []string{"/metrics.jsonl?name=../secret", "/run.json?name=", "/samples.jsonl?name=%2e%2e", "/metrics.jsonl?name=" + url.QueryEscape(folder), "/none", "/../dashboard.go"} {
		r, _ := get(path)
		require.Equal(t, http.StatusNotFound, r.StatusCode, path)
	}
	post := need.Value(http.Post(s.URL()+"runs.json", "text/plain", nil))(t)
	post.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, post.StatusCode)
}

// A request by another host name, which a site can point at this address, is refused.
func TestOtherNames(t *testing.T) {
	s, _ := serve(t, DefaultAddress, t.TempDir())
	for host, want := range map[string]int{"evil.example": 403, "evil.example:80": 403, "localhost:1": 200, "127.0.0.1": 200, "[::1]:80": 200} {
		r := need.Value(http.NewRequest("GET", s.URL(), nil))(t)
		r.Host = host
		answer := need.Value(http.DefaultClient.Do(r))(t)
		answer.Body.Close()
		require.Equal(t, want, answer.StatusCode, host)
	}
}

// Requests from other machines need the token, which becomes a cookie.
func TestToken(t *testing.T) {
	folder := t.TempDir()
	makeRun(t, filepath.Join(folder, "first"), 2)
	s, get := serve(t, "0.0.0.0:0", folder)
	require.Contains(t, s.Describe(), "?token=")
	for _, path := range []string{"/", "/runs.json", "/?token=", "/runs.json?token=wrong"} {
		r, _ := get(path)
		require.Equal(t, http.StatusUnauthorized, r.StatusCode, path)
	}
	u := need.Value(url.Parse(s.URL()))(t)
	r, _ := get("/?" + u.RawQuery)
	require.Equal(t, http.StatusOK, r.StatusCode)
	cookie := r.Cookies()[0]
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	request := need.Value(http.NewRequest("GET", "http://"+u.Host+"/runs.json", nil))(t)
	request.AddCookie(cookie)
	answer := need.Value(http.DefaultClient.Do(request))(t)
	answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)

	_, err := Listen("256.0.0.1:1", folder)
	require.Error(t, err)
}
