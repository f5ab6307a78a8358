package nn_test

import (
	"testing"

	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }
