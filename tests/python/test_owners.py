"""Which positions tell that variables are the same: models are imitated by the ids of their variables."""

from typing import Any, Optional, Sequence

from farandole._keras.owners import Owner, Positions, choose, fitting_model, locate


def model(*ids: int, is_model: bool = True) -> Owner:
    return Owner(is_model, {each: place for place, each in enumerate(ids)})


def keys(wanted: Sequence[int], *owners: Owner) -> Sequence[Optional[str]]:
    return choose(wanted, owners).keys


def test_frozen_layers_count() -> None:
    assert choose([1, 2], [model(0, 1, 2)]) == Positions(["0:1", "0:2"], True)
    assert choose([0, 1], [model(0, 1, 2)]) == Positions(["0:0", "0:1"], True)


def test_the_smallest_model_with_all_of_them_counts() -> None:
    around = model(7, 0, 1, 2)
    assert keys([0, 2], around, model(0, 1, 2)) == ["0:0", "0:2"]
    assert not choose([0, 2], [around, model(0, 1, 2)]).are_sure
    assert choose([0, 2], [model(0, 1, 2), model(0, 1, 2, 3), model(0)]).are_sure
    assert keys([2], model(2, is_model=False), model(1, 2)) == ["0:1"]


def test_layers_of_layers_count_where_there_is_no_model() -> None:
    found = choose([2], [model(2, is_model=False), model(1, 2, is_model=False)])
    assert found.keys == ["0:1"]


def test_several_models_have_numbers_in_the_order_of_their_sizes() -> None:
    assert choose([0, 1, 5], [model(4, 5), model(0, 1)]) == Positions(["0:0", "0:1", "1:1"], False)


def test_variables_without_a_model_have_no_position() -> None:
    assert choose([0, 1], []) == Positions([None, None], False)
    assert choose([0, 1], [model(1)]) == Positions([None, "0:0"], False)
    assert locate([object()])[0] == Positions([None], False)


def test_a_fit_of_other_modules_is_not_keras_s() -> None:
    def fit() -> Optional[Any]:
        return fitting_model()

    assert fit() is None
