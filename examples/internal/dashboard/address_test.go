package dashboard

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// The printed address is reachable from other machines, and opens the run that trains.
func TestReachable(t *testing.T) {
	interfaces := func(list ...string) func() ([]net.Addr, error) {
		return func() (found []net.Addr, err error) {
			for _, text := range list {
				ip, network, err := net.ParseCIDR(text)
				require.NoError(t, err)
				network.IP = ip
				found = append(found, network)
			}
			return found, nil
		}
	}
	for _, c := range []struct {
		address    string
		interfaces []string
		want       string
	}{
		{"127.0.0.1", []string{"10.0.0.3/8"}, "127.0.0.1:80"},
		{"0.0.0.0", []string{"127.0.0.1/8", "fd00::1/64", "10.0.0.3/8"}, "10.0.0.3:80"},
		{"::", []string{"::1/128", "fe80::1/64", "fd00::1/64"}, "[fd00::1]:80"},
		{"0.0.0.0", []string{"127.0.0.1/8"}, "0.0.0.0:80"},
	} {
		require.Equal(t, c.want, reachable(&net.TCPAddr{IP: net.ParseIP(c.address), Port: 80}, interfaces(c.interfaces...)))
	}

	folder := t.TempDir()
	s := need.Value(Listen(DefaultAddress, folder))(t)
	defer s.Close()
	s.Open(filepath.Join(folder, "a b&c"))
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/#run=a\+b%26c$`, s.URL())
}
