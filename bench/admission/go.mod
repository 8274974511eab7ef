module extauthz.dev/bench/admission

go 1.26.0
