package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecording(t *testing.T) {
	var cast, svg bytes.Buffer
	require.NoError(t, record(strings.NewReader("# what it does\necho step 1; echo step 2; echo 'a < b' ## shown\n"), &cast))
	lines := strings.Split(strings.TrimSpace(cast.String()), "\n")
	require.Len(t, lines, 6)
	require.Equal(t, `{"version":2,"width":110,"height":30}`, lines[0])
	require.Contains(t, lines[1], `"# what it does\r\n"`)
	require.Contains(t, lines[2], `"$ shown\r\n"`)

	require.NoError(t, draw(bytes.NewReader(cast.Bytes()), &svg))
	text := svg.String()
	require.Contains(t, text, "$ shown</text>")
	require.Contains(t, text, "a &lt; b</text>")
	require.Regexp(t, `opacity="0" [^>]*>step 1<`, text)
	require.Regexp(t, `opacity="1" [^>]*>step 2<`, text)
	for d := xml.NewDecoder(&svg); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
	}

	require.ErrorContains(t, record(strings.NewReader("exit 3\n"), io.Discard), "exit status 3")
	require.ErrorContains(t, draw(strings.NewReader(`{"version":1}`), io.Discard), "no asciicast of version 2")
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 40)
	parts := wrap(long)
	require.Greater(t, len(parts), 1)
	for i, p := range parts {
		require.LessOrEqual(t, len(p), columns)
		require.Equal(t, i > 0, strings.HasPrefix(p, "    "))
	}
	require.Equal(t, strings.Fields(long), strings.Fields(strings.Join(parts, " ")))
}
