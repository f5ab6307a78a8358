// Package dashboard shows runs in a browser while they train, and later: one page with curves, figures and settings, read from
// the folders of the runs.
package dashboard

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/listen"
)

//go:embed assets
var assets embed.FS

// maxConnections limits the files and memory that browsers take from a process that trains.
const maxConnections = 32

// DefaultAddress is the default address: any free port, on this machine only.
const DefaultAddress = "127.0.0.1:0"

// A Server shows the runs of a folder. Close it, or end the context of Serve.
type Server struct {
	listener net.Listener
	patience time.Duration // timeout for clients that send or read nothing
	runs     *folder
	token    string // required if other machines reach the address; "" for loopback
	run      string // opened by URL; "" for the newest
}

// Listen opens the address. If other machines can reach it, clients need a token, which URL contains: with it
// they see the training data.
func Listen(address, path string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listen.Limit(l, maxConnections), patience: 10 * time.Second, runs: &folder{path: path, tails: map[string]*tail{}}}
	if !listen.IsLoopback(l.Addr()) {
		random := make([]byte, 18)
		if _, err := rand.Read(random); err != nil {
			l.Close()
			return nil, err
		}
		s.token = base64.RawURLEncoding.EncodeToString(random)
	}
	return s, nil
}

// Open makes URL open the page with the run in a folder.
func (s *Server) Open(path string) { s.run = s.runs.nameOf(path) }

// URL returns the address for a browser. If the server listens on all interfaces, URL has an address that other
// machines reach.
func (s *Server) URL() string {
	u := url.URL{Scheme: "http", Host: reachable(s.listener.Addr(), net.InterfaceAddrs), Path: "/"}
	if s.token != "" {
		u.RawQuery = url.Values{"token": {s.token}}.Encode()
	}
	text := u.String()
	if s.run != "" {
		text += "#" + url.Values{"run": {s.run}}.Encode() // the page stores its choice in the same form
	}
	return text
}

// reachable returns an address with a port. If the address is unspecified, it takes the first network interface
// that other machines reach, IPv4 first.
func reachable(a net.Addr, interfaces func() ([]net.Addr, error)) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	list, _ := interfaces()
	var six string
	for _, i := range list {
		network, ok := i.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		host := net.JoinHostPort(network.IP.String(), strconv.Itoa(tcp.Port))
		if network.IP.To4() != nil {
			return host
		}
		six = cmp.Or(six, host)
	}
	return cmp.Or(six, a.String())
}

// Close stops listening.
func (s *Server) Close() error { return s.listener.Close() }

// Serve answers until the context ends; that end is not an error.
func (s *Server) Serve(ctx context.Context) error {
	h := &http.Server{Handler: s.guard(s.handler()), ReadTimeout: s.patience, WriteTimeout: 3 * s.patience, IdleTimeout: s.patience, MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if h.Shutdown(soon) != nil {
			h.Close()
		}
	})
	defer stop()
	err := h.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) handler() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /runs.json", s.runs.list)
	mux.HandleFunc("GET /run.json", s.runs.describe)
	mux.HandleFunc("GET /metrics.jsonl", s.runs.metrics)
	mux.HandleFunc("GET /samples.jsonl", s.runs.samples)
	return mux
}

// inlineScript allows the page's one inline script by its hash. The script adds the slash that relative
// addresses need if a proxy shows the page under a prefix without one.
var inlineScript = func() string {
	page, err := assets.ReadFile("assets/index.html")
	if err != nil {
		panic(err) // the file is embedded
	}
	_, script, _ := strings.Cut(string(page), "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

const tokenCookie = "dashboard-token"

// guard admits clients with the token, and refuses host names that another site has pointed at this address
// (DNS rebinding). The page loads nothing from elsewhere and sends nothing elsewhere.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' "+inlineScript+"; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !listen.IsOwnName(r.Host) {
			http.Error(w, "this page opens only under an IP address or as localhost", http.StatusForbidden)
			return
		}
		if s.token == "" {
			next.ServeHTTP(w, r)
			return
		}
		if given := r.URL.Query().Get("token"); given != "" && s.isToken(given) {
			http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			next.ServeHTTP(w, r)
			return
		}
		if c, err := r.Cookie(tokenCookie); err == nil && s.isToken(c.Value) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, "open the address that the program has printed, with its token", http.StatusUnauthorized)
	})
}

func (s *Server) isToken(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) == 1
}

// Describe reports the address of the page.
func (s *Server) Describe() string {
	text := "dashboard: " + s.URL()
	if s.token != "" {
		text += " (anyone with this address can see the training data)"
	}
	return text
}
