//go:build tools

package tools

import _ "github.com/rakyll/hey"
