package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, bytes := range map[string]int64{
		"6GiB": 6 << 30, "1.5g": 3 << 29, "800 MB": 800e6, "512m": 512 << 20, "64k": 64 << 10, "1TiB": 1 << 40, "2 GB": 2e9, "Auto": 0,
	} {
		n, err := Size(text).parse()
		require.NoError(t, err, text)
		require.Equal(t, bytes, n, text)
		require.Equal(t, bytes, Size(text).Bytes())
		require.Equal(t, text == "Auto", Size(text).IsAuto())
	}
	for text, message := range map[string]string{
		"800": "800 has no unit; expected a size such as 6GiB or 800MiB, or auto",
		"":    `expected a size such as 6GiB or 800MiB, or auto, but got ""`,
		"GiB": `expected a size such as 6GiB or 800MiB, or auto, but got "GiB"`, "-1GiB": `expected a size such as 6GiB or 800MiB, or auto, but got "-1GiB"`,
		"0": `expected a size such as 6GiB or 800MiB, or auto, but got "0"`, "NaN GiB": `expected a size such as 6GiB or 800MiB, or auto, but got "NaN GiB"`,
		"1e30GiB": `expected a size such as 6GiB or 800MiB, or auto, but got "1e30GiB"`, "4 Gb/s": `expected a size such as 6GiB or 800MiB, or auto, but got "4 Gb/s"`,
		"all": `expected a size such as 6GiB or 800MiB, or auto, but got "all"`,
	} {
		_, err := Size(text).parse()
		require.EqualError(t, err, message)
	}
}
