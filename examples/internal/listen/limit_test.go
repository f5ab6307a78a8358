package listen

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Connections without a request make room for new ones, in any number; a connection with a request stays.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	const most = 8
	l := Limit(need.Value(net.Listen("tcp", "127.0.0.1:0"))(t), most)
	begun, end := make(chan bool), make(chan bool)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			begun <- true
			<-end
		}
		io.WriteString(w, r.URL.Path)
	})}
	MakeRoom(s)
	go s.Serve(l)
	defer s.Close()
	get := func(path string) string {
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}).Get("http://" + l.Addr().String() + path)
		require.NoError(t, err)
		defer response.Body.Close()
		return string(need.Value(io.ReadAll(response.Body))(t))
	}
	long := make(chan string)
	go func() { long <- get("/long") }()
	<-begun
	for i := range 10 * most {
		c := need.Value(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
		if i%2 == 0 { // a header that does not end
			need.Value(io.WriteString(c, "GET / HTTP/1.1\r\nHost:"))(t)
		}
		if i%most == 0 {
			require.Equal(t, "/short", get("/short"))
		}
	}
	require.LessOrEqual(t, l.(*limited).NumOpen(), most)
	close(end)
	require.Equal(t, "/long", <-long)
}

// A connection that ends by itself frees its slot for a new one, which is not taken for the idle connection to close.
func TestEndedConnectionsMakeRoom(t *testing.T) {
	l := Limit(need.Value(net.Listen("tcp", "127.0.0.1:0"))(t), 1).(*limited)
	defer l.Close()
	for range 2 {
		c := need.Value(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
	}
	first := need.Value(l.Accept())(t)
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		assert.NoError(t, err)
		accepted <- c
	}()
	wants := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.wants
	}
	require.Eventually(t, wants, time.Minute, time.Millisecond)
	require.NoError(t, first.Close())
	second := <-accepted
	second.(*limitedConn).setIdle(true)
	require.Equal(t, 1, l.NumOpen())
}
