;; An agent that may not be chosen.
;; ends: agent
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 64) "\46\4c\4e\31\03\00\01\00\24\00\00\00\00\00\00\00\40\00\01\00\1c\00\00\00\08\00\00\00\73\74\72\61\6e\67\65\72")
  (func (export "flynn_route") (param $size i32) (result i64)
    (memory.copy (i32.const 4096) (i32.const 64) (i32.const 36))
    (i64.const 0x00000024_00000001)))
