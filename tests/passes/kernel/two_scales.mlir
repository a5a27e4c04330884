// Two attentions that differ in the scale only.
!t = tensor<32x16xf16>
#q = affine_map<(m, n, d, e) -> (m, d)>
#k = affine_map<(m, n, d, e) -> (n, d)>
#v = affine_map<(m, n, d, e) -> (n, e)>
#o = affine_map<(m, n, d, e) -> (m, e)>
#schedule = #schedule.attention<query_tile = 16, key_tile = 16, subgroups = 1,
  instruction = coopmat 16x16x16, q = rows, k = rows, v = rows, rescale = always,
  probabilities = converted>
func.func @main(%q: !t, %k: !t) -> (!t, !t) {
  %r0 = schedule.dispatch(%q, %k) : (!t, !t) -> !t {
  ^bb0(%a: !t, %b: !t):
    %e = tensor.empty() : !t
    %o = schedule.attention %a, %b, %b into %e loops = [32, 32, 16, 16] maps = [#q, #k, #v, #o]
      scale = 2.5e-1 {schedule = #schedule} : !t, !t, !t into !t -> !t
    schedule.yield %o : !t
  }
  %r1 = schedule.dispatch(%q, %k) : (!t, !t) -> !t {
  ^bb0(%a: !t, %b: !t):
    %e = tensor.empty() : !t
    %o = schedule.attention %a, %b, %b into %e loops = [32, 32, 16, 16] maps = [#q, #k, #v, #o]
      scale = 5.0e-1 {schedule = #schedule} : !t, !t, !t into !t -> !t
    schedule.yield %o : !t
  }
  func.return %r0, %r1 : !t, !t
}
