;; Imports its memory, as modules of OPA's do, and is none of these.
;; ends: load "a policy has to define its own"
(module
  (import "host" "memory" (memory 1))
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
