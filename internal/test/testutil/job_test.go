package testutil

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestMain(m *testing.M) { Main(m) }

const page = 4096 // or a multiple of it; a touched page is resident

var fill = NewJob("fill", func(bytes int) (int, error) {
	if bytes < 0 {
		return 0, errors.New("less than nothing")
	}
	data := make([]byte, bytes)
	sum := 0
	for i := 0; i < bytes; i += page {
		data[i] = 1
		sum += int(data[i])
	}
	return sum, nil
})

var _ = NewJob("hang", func(int) (int, error) { select {} })

func TestJob(t *testing.T) {
	const size = 256 << 20
	_, little, err := fill.Run(1)
	require.NoError(t, err)
	sum, much, err := fill.Run(size)
	require.NoError(t, err)
	require.Equal(t, size/page, sum)
	if much > 0 { // known on this system
		require.Greater(t, much, uint64(size))
		require.Less(t, little, uint64(size))
	}
	_, _, err = fill.Run(-1)
	require.EqualError(t, err, "the job fill: exit status 1")
}

// A job ends with the process that waits for it, even if that is killed.
func TestJobEndsWithParent(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), jobKey+"=hang")
	stdin := need.Value(c.StdinPipe())(t)
	require.NoError(t, c.Start())
	_, err := io.WriteString(stdin, "1\n")
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	watchdog := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer watchdog.Stop()
	require.EqualError(t, c.Wait(), "exit status 1")
}
